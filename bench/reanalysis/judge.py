"""From the record's files to facts: imported, graded, compared and audited by our own commands' functions.

Facts are what JSON holds (fractions, ``null`` for unknown), so that the pages can be made again from the summary alone.
"""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from bench.reanalysis.benchmarks import SETS
from bench.reanalysis.files import Record, read_labels
from bench.reanalysis.kinds import kind_of_gold
from bench.reanalysis.record import DataSet, Run
from stapo_bench.analysis import (
    AuditCheck,
    Comparison,
    GraderAgreement,
    TaskComparison,
    TaskScore,
    audit,
    compare_graders,
    compare_loaded,
    compare_outcomes,
    curve_runs,
    moved_samples,
    shared_samples,
)
from stapo_bench.presenting import finish_run
from stapo_bench.records import Outcome, SampleKey
from stapo_bench.runs import LoadedRun, load_run, read_grades
from stapo_bench.runs.importing import ImportOptions, Stated, import_run
from stapo_bench.statistics import Interval, share_between, share_common, times_needed

Facts = dict[str, Any]


def judge(data_set: DataSet, record: Record, scratch: Path, data_dir: Path) -> Facts:
    """All facts of one data set; what this copy of the record lacks is left out."""
    labels = read_labels(data_dir)
    runs: dict[str, Path] = {}
    facts = []
    for run in data_set.runs:
        if files := record.files_of(run):
            runs[run.name] = scratch / "runs" / data_set.name / run.name
            facts.append(_run(run, files, runs[run.name], data_dir, labels))
    graders = {run.name: run.grader for run in data_set.runs}
    loaded = {
        name: load_run(folder, graders[name]) for name, folder in runs.items() if _is_graded(folder, graders[name])
    }
    pairs = [pair for pair in data_set.comparisons if set(pair) <= set(loaded)]
    comparisons = [row for a, b in pairs for row in _comparison(a, b, loaded, runs)]
    return {
        "name": data_set.name,
        "runs": facts,
        "comparisons": [*comparisons, *_tables(data_set, record)],
        "curves": [
            _curve(title, [runs[name] for name in names], graders[names[0]])
            for title, names in data_set.curves.items()
            if set(names) <= set(loaded)
        ],
        "copies": list(_copies(list(loaded.values()))),
    }


def _is_graded(folder: Path, grader: str) -> bool:
    return (folder / "grades" / f"{grader}.jsonl").is_file()


def _run(run: Run, files: Sequence[Path], folder: Path, data_dir: Path, labels: Mapping[str, bool]) -> Facts:
    method = run.name if run.step is None else run.name.removesuffix(f"-{run.step}")
    stated = Stated(model=run.model, method=method, step=run.step, temperature=run.temperature)
    imported = import_run(files, folder, ImportOptions(data_dir=data_dir, stated=stated, name=run.set))
    grader = run.grader if run.grader != "math" else imported.grader
    if grader is None:
        return {
            "name": run.name,
            "files": len(files),
            "samples": imported.num_samples,
            "grader": "",
            "remark": "neither golds nor verdicts",
            "tasks": [],
            "labels": None,
            "audit": [],
        }
    score = finish_run(folder, data_dir=data_dir, grader=grader)
    loaded = load_run(folder, grader)
    agreement = compare_graders(folder, data_dir)
    # With one sample of each problem equal seeds take nothing away.
    idle = () if any(task.samples_per_problem > 1 for task in score.tasks) else ("equal seeds",)
    by_script = next((name for name in imported.graders if name != score.grades), None)
    return {
        "name": run.name,
        "files": len(files),
        "samples": imported.num_samples,
        "grader": score.grader,
        "remark": run.remark,
        "tasks": [_task(task, loaded, agreement, by_script, run.stated) for task in score.tasks],
        "labels": _labelled(folder, [grader, *([by_script] if by_script else [])], labels),
        "audit": [check.message for check in audit(loaded) if check.result == "finding" and check.name not in idle],
    }


def _task(
    task: TaskScore, loaded: LoadedRun, agreement: GraderAgreement | None, script: str | None, stated: float | None
) -> Facts:
    if agreement and script:
        stated = next(found.values[task.task] for found in agreement.scores if found.name == script)
    return {
        "task": SETS.get(task.task, task.title),
        "problems": task.num_problems,
        "asked": task.num_problems_expected,
        "k": task.samples_per_problem,
        "value": _number(task.value),
        "these": _interval(task.these_problems),
        "like": _interval(task.problems_like_these),
        "script": _number(stated),
        "no_answer": task.num_no_answer,
        "undecided": task.num_grader_errors + task.num_ungraded,
        "copies": task.num_copies,
        "samples": task.num_samples,
        "between": _number(share_between(loaded.outcomes[task.task].scores)),
        "disputes": _disputes(task.task, agreement, script) if agreement and script else {},
    }


def _labelled(folder: Path, graders: Sequence[str], labels: Mapping[str, bool]) -> Facts | None:
    """Of the completions whose correctness was checked: how many, and of how many each grader's verdict is another."""
    known: dict[SampleKey, bool] = {}
    for path in sorted((folder / "samples").glob("*.jsonl")) if labels else ():
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if (label := labels.get(row["completion"])) is not None:
                known[SampleKey(row["task"], row["problem_id"], row["sample_index"])] = label
    if not known:
        return None
    wrong = []
    for grader in graders:
        outcomes = read_grades(folder, grader).outcomes
        wrong.append(sum((outcomes[key][0] is Outcome.CORRECT) != label for key, label in known.items()))
    return {"checked": len(known), "ours_wrong": wrong[0], "script_wrong": wrong[1] if len(wrong) > 1 else None}


def _disputes(task: str, agreement: GraderAgreement, script: str) -> dict[str, int]:
    """Samples that one of both graders accepts, by whom, and by the kind of gold."""
    names = [found.name for found in agreement.scores]
    first, second = 0, names.index(script)  # ours stands first
    counts: Counter[str] = Counter()
    for dispute in agreement.disputes:
        verdicts = dispute.verdicts[first], dispute.verdicts[second]
        if (
            dispute.task != task
            or Outcome.CORRECT not in verdicts
            or not {*verdicts} & {Outcome.INCORRECT, Outcome.NO_ANSWER}
        ):
            continue
        who = "ours" if verdicts[0] is Outcome.CORRECT else "script"
        counts[f"{who}: {kind_of_gold(dispute.gold)}"] += dispute.num_samples
    return dict(sorted(counts.items()))


def _comparison(a: str, b: str, loaded: Mapping[str, LoadedRun], runs: Mapping[str, Path]) -> Iterator[Facts]:
    shared = [task for task in loaded[a].tasks if task in loaded[b].tasks]
    if not shared:
        return
    ours = compare_loaded(loaded[a], loaded[b])
    script = _by_script(runs[a], runs[b])
    for task in ours.tasks:
        sides = [loaded[name].outcomes[task.task] for name in (a, b)]
        ids = [name for name in sides[0].problem_ids if name in set(sides[1].problem_ids)]
        common = share_common(*(side.of(ids).scores for side in sides))
        of_script = next((found for found in script.tasks if found.task == task.task), None) if script else None
        yield {**_effect(task), "a": a, "b": b, "common": _number(common), "script": _script(of_script)}


def _by_script(a: Path, b: Path) -> Comparison | None:
    """The same comparison by the verdicts that came with both files."""
    names = [{path.stem for path in (run / "grades").glob("*-reported.jsonl")} for run in (a, b)]
    if not (both := sorted(names[0] & names[1])):
        return None
    return compare_loaded(load_run(a, both[0]), load_run(b, both[0]))


def _script(task: TaskComparison | None) -> Facts | None:
    if task is None:
        return None
    effect = task.effect("problems like these")
    return {"gain": _number(effect.difference.value), "verdict": effect.verdict}


def _effect(task: TaskComparison) -> Facts:
    these, like = task.effects
    pairs = like.difference.pairs
    times = times_needed(like.difference)
    return {
        "task": SETS.get(task.task, task.title),
        "problems": like.difference.num_problems,
        "value_a": _number(task.value_a),
        "value_b": _number(task.value_b),
        "gain": _number(like.difference.value),
        "these": _interval(these.difference.interval()),
        "like": _interval(like.difference.interval()),
        "p": _number(like.p_adjusted),
        "verdict_these": these.verdict,
        "verdict": like.verdict,
        "tied_within": _number(like.tied_within),
        "won": pairs.wins if pairs else None,
        "lost": pairs.losses if pairs else None,
        "detectable": _number(2.8016 * like.difference.standard_error),
        "problems_needed": _number(
            math.ceil(times * like.difference.num_problems) if math.isfinite(times) else math.nan
        ),
    }


def _tables(data_set: DataSet, record: Record) -> Iterator[Facts]:
    for table in data_set.tables:
        if (path := record.table(table.file)) is None:
            continue
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        a, b = ({row[table.item]: row[column] == "C" for row in rows} for column in (table.score_a, table.score_b))
        (task,) = compare_outcomes(a, b).tasks
        name_a, name_b = table.title.split(" → ")
        yield {**_effect(task), "task": data_set.name.upper(), "a": name_a, "b": name_b, "common": None, "script": None}


def _curve(title: str, runs: Sequence[Path], grader: str) -> Facts:
    found, base = curve_runs(runs, grader), load_run(runs[0], grader)
    return {
        "title": title,
        "tasks": [SETS.get(task, base.title(task)) for task in found.tasks],
        "problems": len(base.outcomes[found.tasks[0]].problem_ids),
        "points": [
            {
                "name": p.name,
                "step": p.step,
                "value": _number(p.value),
                "gain": _number(p.gain),
                "band": _interval(p.band),
            }
            for p in found.points
        ],
        "critical": _number(found.critical),
        "best": found.best,
        "first_above": found.first_above,
        "notes": list(found.notes),
    }


def _copies(runs: Sequence[LoadedRun]) -> Iterator[str]:
    """Completions that two runs share: beyond chance, or where nobody knows what chance gives."""
    for a, b in combinations(runs, 2):
        if set(a.tasks) & set(b.tasks):
            same = shared_samples(a, b)
            is_shared = same.result == "not testable" and re.match("[1-9][0-9]* of", same.message)
            checks: list[AuditCheck] = [same, moved_samples(a, b)]
            yield from (check.message for check in checks if check.result == "finding" or (check is same and is_shared))


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)


def _interval(found: Interval) -> list[float | None]:
    return [_number(found.low), _number(found.high)]
