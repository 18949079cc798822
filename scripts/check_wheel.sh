#!/usr/bin/env bash
# Builds the sdist and from it the wheel, checks what both say of themselves, installs the wheel without extras in an empty
# environment and runs it from an empty folder: nothing may be missing for grading, comparing and reporting, and what
# needs an extra must say which.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
trap 'echo "scripts/check_wheel.sh: failed in line $LINENO: $BASH_COMMAND" >&2' ERR
python -m build -q --no-isolation --outdir "$work"
python -m venv "$work/twine"
"$work/twine/bin/pip" install -q twine==7.0.0
"$work/twine/bin/twine" check --strict "$work"/*.whl "$work"/*.tar.gz
python -m venv "$work/venv"
constraints="$PWD/requirements/core.txt"
cd "$work"
# pip, and setuptools where the Python has it, come with the environment, not with us.
size() { du -sm --exclude=pip --exclude='pip-*' venv/lib | cut -f1; }
empty="$(size)"
SECONDS=0
"$work/venv/bin/pip" install -q -c "$constraints" ./*.whl
installed="$SECONDS"  # said and not demanded: most of it is the network
"$work/venv/bin/python" -c '
from importlib.util import find_spec
heavy = [name for name in ("torch", "transformers", "datasets", "safetensors", "matplotlib", "sympy", "pyarrow") if find_spec(name)]
assert not heavy, f"expected an installation without extras, got {heavy}"
'
# Nothing of the checkout on PATH or in the environment: what runs here is the wheel alone.
megabytes="$(($(size) - empty))"
[ "$megabytes" -le 250 ] || { echo "expected an installation without extras below 250 MB, got $megabytes" >&2; exit 1; }
run() { env -i HOME="$work" PATH="$work/venv/bin:/usr/bin:/bin" "$@"; }
run stapo-bench --help >/dev/null
run stapo-bench tasks aime24 | grep "problems: 30" >/dev/null
run stapo-bench table --published | grep "published" >/dev/null
run stapo-bench launch eval_array | grep -- '--shard' >/dev/null
run stapo-train --help >/dev/null
# Every task file reads, and the generated suite has the content its digests name.
run python -c '
from importlib.metadata import version
from stapo_bench import __version__
from stapo_bench.tasks import load_problems, load_task, task_names
assert version("stapo-bench") == __version__
assert len(task_names("paper")) == len(task_names("tiny")) == 6
problems = sum(len(load_problems(load_task(name))) for name in task_names("tiny"))
print("wheel:", problems, "tiny problems from", __import__("stapo_bench").__file__)
'
# Samples (of an engine that needs no model), a second opinion, scores, a comparison, the page.
for share in 0.2 0.9; do
    echo "success: $share" >"$share.yaml"
    run stapo-bench eval --engine scripted --ckpt "$share.yaml" --tasks tiny_aime24,tiny_amc23 --decoding justrl \
        --samples 2 --out "runs/$share" >/dev/null 2>&1
done
run stapo-bench grade runs/0.9 --grader strict >/dev/null 2>&1
run stapo-bench grade runs/0.9 --grader qwen >out.txt 2>&1 && exit 1
grep -F "stapo-bench[graders]" out.txt >/dev/null
run stapo-bench score runs/0.9 >/dev/null
run stapo-bench compare runs/0.2 runs/0.9 >/dev/null
run stapo-bench report runs/0.2 runs/0.9 --out report.html 2>&1 | grep -F "stapo-bench[plots]" >/dev/null
# A stranger's walk: the commands of the README and of the pages that it leads to first, in order, each page in an empty
# folder; what they print is what the pages show.
"$work/venv/bin/python" "$root/tests/pages_that_run.py" --walk "$work/venv/bin" "$root/README.md" \
    "$root"/docs/{start,tutorials/other-harness,tutorials/two-checkpoints,how-to/resume,reference/python,reference/run-folder}.md
# Two files are compared at once: memory, and processor time in units of a loop in Python beside it, so that a slow machine
# does not fail; the least of three, as a busy machine adds to both.
run python - <<'END'
import random, resource, subprocess, time

def loop():
    start, number = time.process_time(), 0
    for i in range(5_000_000):
        number += i * i % 7
    return time.process_time() - start

def compared(items, most_loops, most_megabytes):
    for name in "ab":
        with open(f"{name}.csv", "w", encoding="utf-8") as file:
            file.write("item,score\n" + "".join(f"q{i},{random.randint(0, 1)}\n" for i in range(items)))
    spent, loops = [], []
    for _ in range(4):
        loops.append(loop())
        subprocess.run(["stapo-bench", "compare", "a.csv", "b.csv"], check=True, capture_output=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(used.ru_utime + used.ru_stime)
    seconds, megabytes = min(after - before for before, after in zip(spent, spent[1:])), used.ru_maxrss / 1024
    said = f"{items:,} items x 2 compared in {seconds:.1f} s of processor time, {seconds / min(loops):.1f} loops, and {megabytes:.0f} MB"
    assert seconds < most_loops * min(loops) and megabytes < most_megabytes, f"expected {most_loops} loops, {most_megabytes} MB: {said}"
    print(f"wheel: {said}")

compared(100, 5, 300)
compared(100_000, 12, 300)
END
# A model needs the extra, and one line says so.
mkdir model && for file in config.json model.safetensors tokenizer.json; do echo '{}' >"model/$file"; done
run stapo-bench eval --ckpt model --tasks tiny_aime24 --decoding justrl --out runs/model >out.txt 2>&1 && exit 1
[ "$(wc -l <out.txt)" = 1 ]
grep -F "pip install 'stapo-bench[eval]'" out.txt >/dev/null
echo "wheel: samples, grades, scores, comparison and report without extras, installed in $installed s, $megabytes MB, with pip $(du -sm venv | cut -f1) MB"
