"""lm-eval's logs: ``results.json``, and ``samples_<task>.jsonl`` with a line per problem that holds all its samples.

Names and metrics are those of our task files under lm-eval (``stapo_bench.commands.lm_eval``): ``avg_at_k`` over the
decided samples of a problem, and the shares without an answer and with a grader error. A log has neither seeds, lengths
nor a verdict per sample, and a completion that an engine gave up is none.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stapo_bench import __version__
from stapo_bench.analysis import TaskScore
from stapo_bench.presenting.exporting.graded_run import GradedRun, SampleWithGrade, file_name, standard_error
from stapo_bench.records import Outcome, Problem, StatedSampling
from stapo_bench.runs import refuse_foreign, write_parts, write_result

FILTER = "all_samples"
_SAMPLES_AT_ONCE = 1 << 14  # in memory; a run is read once for each so many
_HIGHER_IS_BETTER = {"avg_at_k": True, "no_answer": False, "grader_errors": False}


def write_lm_eval(run: GradedRun, out: Path) -> list[Path]:
    """Write the logs into a folder; returns their paths.

    Raises:
        UsageError: one of their names is another's file.
    """
    suffix = f"_{run.created[:19].replace(':', '-')}" if run.created else ""
    tasks = list(run.manifest.about.tasks)
    files = [out / f"samples_{file_name(run.harness_name(name))}{suffix}.jsonl" for name in tasks]
    results = out / f"results{suffix}.json"
    for file in files:
        refuse_foreign(file, b'{"stapo_bench": ')
    refuse_foreign(results, b'{\n  "exported_by": "stapo-bench ')
    for file, name in zip(files, tasks, strict=True):
        write_parts(file, (json.dumps(row, ensure_ascii=True) + "\n" for row in _rows(run, name)))
    write_result(results, json.dumps(_results(run), indent=2) + "\n")
    return [*files, results]


def generation_arguments(sampling: StatedSampling) -> dict[str, Any]:
    """lm-eval's names for how tokens were sampled, as far as it is known."""
    known: dict[str, Any] = {}
    if sampling.temperature is not None:
        known = {"do_sample": sampling.temperature > 0, "temperature": sampling.temperature}
    if sampling.top_p is not None:
        known["top_p"] = sampling.top_p
    if sampling.max_new_tokens is not None:
        known["max_gen_toks"] = sampling.max_new_tokens
    known |= {name: value for name in ("top_k", "min_p") if (value := getattr(sampling, name)) is not None}
    return {**known, "until": list(sampling.stop)} if sampling.stop else known


def _rows(run: GradedRun, task: str) -> Iterator[dict[str, Any]]:
    """A row per problem with samples, which lie in the order in which they were drawn: some are held at once."""
    arguments = generation_arguments(run.manifest.identity.sampling)
    problems = list(enumerate(run.problems[task].values()))
    at_once = max(1, _SAMPLES_AT_ONCE // run.manifest.about.tasks[task].num_samples)
    for some in (problems[start : start + at_once] for start in range(0, len(problems), at_once)):
        by_problem: dict[str, list[SampleWithGrade]] = {problem.problem_id: [] for _, problem in some}
        for judged in run.judged(task):
            if judged.sample.problem_id in by_problem and judged.sample.finish_reason != "error":
                by_problem[judged.sample.problem_id].append(judged)
        for number, problem in some:
            samples = sorted(by_problem[problem.problem_id], key=lambda judged: judged.sample.sample_index)
            if samples:
                yield {"stapo_bench": run.settings(task), **_row(number, problem, samples, arguments)}


def _row(
    number: int, problem: Problem, samples: Sequence[SampleWithGrade], arguments: dict[str, Any]
) -> dict[str, Any]:
    gold = {name: value for name, value in asdict(problem.gold).items() if value is not None}
    doc = {"id": problem.problem_id, "problem": problem.question, **gold}
    texts = [judged.sample.completion for judged in samples]
    metrics = problem_metrics([judged.outcome for judged in samples if judged.outcome is not None])
    return {
        "doc_id": number,
        "doc": doc,
        "target": problem.gold.answer,
        "arguments": {"gen_args_0": {"arg_1": arguments}},  # the prompt is not stored in a run
        "resps": [texts],
        "filtered_resps": [texts],
        "filter": FILTER,
        "metrics": list(metrics),
        "doc_hash": _sha256(json.dumps(doc, indent=2, ensure_ascii=False)),
        "target_hash": _sha256(problem.gold.answer),
        **metrics,
    }


def problem_metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Of one problem, what ``process_results`` of our task files gives lm-eval; none where nothing is graded."""
    if not outcomes:
        return {}
    failed = outcomes.count(Outcome.GRADER_ERROR)
    shares = {
        "no_answer": outcomes.count(Outcome.NO_ANSWER) / len(outcomes),
        "grader_errors": failed / len(outcomes),
    }
    if failed == len(outcomes):
        return shares
    return {"avg_at_k": outcomes.count(Outcome.CORRECT) / (len(outcomes) - failed), **shares}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _results(run: GradedRun) -> dict[str, Any]:
    names = {task.task: run.harness_name(task.task) for task in run.score.tasks}
    tasks = {names[task.task]: task for task in run.score.tasks}
    about = run.manifest.about
    return {
        "exported_by": f"stapo-bench {__version__}",  # first, and by it known again
        "results": {name: _task_results(task) for name, task in tasks.items()},
        "group_subtasks": {name: [] for name in tasks},
        "configs": {names[task.task]: _config(run, task) for task in run.score.tasks},
        "versions": {names[name]: task.version for name in names if (task := run.task(name)) is not None},
        "higher_is_better": dict.fromkeys(tasks, _HIGHER_IS_BETTER),
        "n-samples": {
            name: {"original": task.num_problems_expected, "effective": task.num_problems}
            for name, task in tasks.items()
        },
        "config": {"gen_kwargs": generation_arguments(run.manifest.identity.sampling)},
        **({} if about.model is None else {"model_name": about.model}),
        **({} if about.commit is None else {"git_hash": about.commit}),
        "grader": run.score.grader,
    }


def _task_results(task: TaskScore) -> dict[str, Any]:
    drawn = task.num_samples - task.num_ungraded
    error = standard_error(task.counts)
    found: dict[str, Any] = {"alias": task.title, "sample_len": task.num_problems}
    if not math.isnan(task.value):
        found[f"avg_at_k,{FILTER}"] = task.value
    if error is not None:
        found[f"avg_at_k_stderr,{FILTER}"] = error
    if drawn:
        found[f"no_answer,{FILTER}"] = task.num_no_answer / drawn
        found[f"grader_errors,{FILTER}"] = task.num_grader_errors / drawn
    return found


def _config(run: GradedRun, score: TaskScore) -> dict[str, Any]:
    task = run.task(score.task)
    return {
        "task": run.harness_name(score.task),
        **({} if task is None or task.source.path is None else {"dataset_path": task.source.path}),
        "output_type": "generate_until",
        "repeats": score.samples_per_problem,
        "generation_kwargs": generation_arguments(run.manifest.identity.sampling),
        "metadata": {"version": task.version} if task is not None else {},
    }
