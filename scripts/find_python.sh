# Defines find_python LEAST BELOW: prints the first of $PYTHON, python3, python3.13 ... python3.10 whose version is at
# least LEAST and below BELOW ("3 10", "3 13"); fails with one line where there is none. Sourced by the environments.
find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c "import sys; v = sys.version_info[:2]; sys.exit(not (${1/ /,}) <= v < (${2/ /,}))" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "environment: expected a Python from ${1/ /.} to below ${2/ /.}, found none; install one or set PYTHON=/path/to/it" >&2
    return 1
}
