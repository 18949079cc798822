"""The published record, judged again: pages and a summary of facts, without a text of problem or completion.

python -m bench.reanalysis --data DIR               # 2.5 minutes of CPU; DIR as STAPO_BENCH_DATA, with runs/
python -m bench.reanalysis --pages                  # the pages alone, from the summary
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.reanalysis import claims, figures, index, means, pages, paper
from bench.reanalysis.benchmarks import GSM8K, MATH, PRIME
from bench.reanalysis.files import Record
from bench.reanalysis.judge import judge
from bench.reanalysis.record import DataSet
from bench.reanalysis.series import AIME, CHECKPOINTS, RLVR_SCHEDULE, SKY_T1
from stapo_bench.analysis import overlaps_of_tasks
from stapo_bench.grading import DEFAULT_GRADER, get_grader

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "results" / "reanalysis"
DATA_SETS: tuple[DataSet, ...] = (SKY_T1, RLVR_SCHEDULE, CHECKPOINTS, AIME, PRIME, MATH, GSM8K)

_PAPERS_TASKS = ("aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench")
_TRAINING_SETS = ("dapo_math_17k", "deepscaler_40k", "math_12k", "aime_1983_2023", "gsm8k_train")


def measure(data: Path, data_sets: tuple[DataSet, ...] = DATA_SETS) -> dict[str, Any]:
    """All facts of the record in ``data/runs``, judged with the golds in ``data``."""
    with tempfile.TemporaryDirectory(prefix="reanalysis-") as scratch:
        record = Record(data / "runs", Path(scratch))
        found = []
        for data_set in data_sets:
            print(f"{data_set.name} …", file=sys.stderr)
            facts = judge(data_set, record, Path(scratch), data)
            if data_set.printed:
                facts["printed"] = means.trainings(record.folder_of(data_set.printed))
            found.append(facts)
        return {
            "grader": get_grader(DEFAULT_GRADER).version,
            "files": {"all": len(record.files()), "used": len(record.used), "unused": record.unused()},
            "duplicates": record.duplicates(),
            "overlaps": _overlaps(data),
            "data_sets": found,
        }


def write(summary: dict[str, Any], out: Path, data_sets: tuple[DataSet, ...] = DATA_SETS) -> None:
    """The summary, a page for each data set and one for the paper, the figures, and the page that leads to them."""
    out.mkdir(parents=True, exist_ok=True)
    texts = {"summary.json": json.dumps(summary, indent=1, ensure_ascii=False) + "\n", **texts_of(summary, data_sets)}
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    figures.write(summary, out)


def texts_of(summary: dict[str, Any], data_sets: tuple[DataSet, ...] = DATA_SETS) -> dict[str, str]:
    """The pages by their file names, from the summary alone."""
    facts = {of["name"]: of for of in summary["data_sets"]}
    found = {f"{each.name}.md": pages.page(each, facts[each.name], summary) for each in data_sets if each.name in facts}
    of_paper = {"paper.md": paper.page(summary["overlaps"]), "claims.md": claims.page()}
    return {"README.md": index.index(summary, data_sets), **of_paper, **found}


def _overlaps(data: Path) -> dict[str, dict[str, int]]:
    """By training set, how many problems of each of the paper's tasks it holds."""
    found = {}
    for name in _TRAINING_SETS:
        if (path := data / "train" / f"{name}.jsonl").is_file():
            overlaps = overlaps_of_tasks(_PAPERS_TASKS, path, data)
            found[name] = {task: len(of_task) for task, of_task in overlaps.items()}
    return found


def main() -> None:
    """Measure, or take the summary as it is, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("STAPO_BENCH_DATA"), help="benchmarks, and runs/")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--pages", action="store_true", help="write the pages from the summary, without the data")
    given = parser.parse_args()
    if given.pages:
        summary = json.loads((given.out / "summary.json").read_text(encoding="utf-8"))
    elif given.data and (given.data / "runs").is_dir():
        summary = measure(given.data)
    else:
        parser.error(f"expected a folder with runs/ in it, got {given.data}; name it with --data or STAPO_BENCH_DATA")
    write(summary, given.out)


if __name__ == "__main__":
    main()
