"""Other tools' files that say what was right, read without their texts: of any task, scorer and metric.

lm-eval's logs of samples, inspect_ai's logs, evalplus's ``eval_results.json``, and reports of SWE-bench. A file with
several metrics is a question, which ``--map score=METRIC`` answers.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs.importing.harness_logs import OWN_METRICS, LmEval, metrics_of
from stapo_bench.runs.importing.inspect_logs import InspectLog
from stapo_bench.runs.importing.layouts import value_at
from stapo_bench.runs.importing.opening import Opened
from stapo_bench.runs.outcomes.cells import Cell, NotOutcomesError, checked
from stapo_bench.runs.outcomes.values import ScoreRange

_INSPECT_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # what inspect_ai's value_to_float makes of its letters
_SHOWN = 12


class Scored(NamedTuple):
    """What a file says of one sample, by metric."""

    item: str
    scores: Mapping[str, Any]
    label: int | None = None
    task: str | None = None
    model: str | None = None
    weights: int = 1  # samples for which the score is the mean of right ones, without the order


def read_log(opened: Opened, metric: str | None, declared: ScoreRange | None) -> tuple[str, Iterator[Cell]] | None:
    """How a log is called, and the outcomes in it by one metric; None: it is none of these."""
    for name, fits, read in _READERS:
        if fits(opened):
            return name, _by_metric(opened, read(opened), metric, declared)
    return None


def _by_metric(
    opened: Opened, scored: Iterable[Scored], metric: str | None, declared: ScoreRange | None
) -> Iterator[Cell]:
    """The outcomes by the metric that the file has, or that was named."""
    seen: dict[str, None] = {}
    labels: Counter[tuple[str | None, str]] = Counter()
    for number, sample in enumerate(scored, start=1):
        seen |= dict.fromkeys(sample.scores)
        if metric is None and len(seen) > 1:
            raise UsageError(f"{opened.name}: has verdicts by {_listed(seen)}; say which: --map score=METRIC")
        wanted = next(iter(seen), None) if metric is None else metric
        if sample.scores and wanted not in sample.scores:
            continue  # of another filter
        value = sample.scores.get(wanted) if wanted is not None else None
        where = f"{sample.item!r}, {wanted}"
        if sample.weights > 1 and value is not None:
            right = round(checked(opened.name, where, value) * sample.weights)
            for index in range(sample.weights):
                yield Cell(sample.model, sample.task, sample.item, index, float(index < right), number, None)
            continue
        key = (sample.task, sample.item)
        label = labels[key] if sample.label is None else sample.label
        labels[key] += sample.label is None
        yield Cell(
            sample.model, sample.task, sample.item, label, checked(opened.name, where, value, declared), number, None
        )
    if not seen or (metric is not None and metric not in seen):
        known = f"it has {_listed(seen)}" if seen else "'stapo-bench import' grades its samples"
        raise NotOutcomesError(
            f"{opened.name}: expected verdicts{f' by {metric}' if metric else ''} in the log, got none; {known}"
        )


def _listed(names: Iterable[str]) -> str:
    found = [repr(name) for name in names]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (" and ".join(found) if len(found) < 3 else ", ".join(found[:_SHOWN])) + more


def _lm_eval(opened: Opened) -> Iterator[Scored]:
    """A line per document and filter; a metric is the document's, however many answers it has.

    Our own task files log the share of right answers: with their number that is every outcome but the order.
    """
    doubled: Counter[tuple[str, str]] = Counter()
    for row in opened.rows():
        item, filter_ = str(row.get("doc_id")), row.get("filter")
        doubled[key := (item, str(filter_))] += 1
        if doubled[key] > 1:
            raise StapoError(f"{opened.name}: document {item} stands twice; remove the double, or log one task alone")
        if {"avg_at_k", *row} >= OWN_METRICS:
            graded = round(len(row["resps"][0]) * (1.0 - row["grader_errors"]))
            yield Scored(item, {"avg_at_k": row.get("avg_at_k")}, weights=max(1, graded))
            continue
        numbers = {name: value for name, value in metrics_of(row).items() if isinstance(value, int | float | None)}
        yield Scored(item, numbers, label=0)


def _inspect(opened: Opened) -> Iterator[Scored]:
    """A sample per problem and epoch; a scorer that gives several values has a metric for each of them."""
    log = InspectLog()
    head = log.head(opened)
    task, model = value_at(head, "eval.task"), value_at(head, "eval.model")
    for sample in log.samples(opened):
        found: dict[str, Any] = {}
        scores = sample.get("scores")
        for scorer, score in scores.items() if isinstance(scores, dict) else ():
            value = score.get("value") if isinstance(score, dict) else None
            inner = value.items() if isinstance(value, dict) else ((None, value),)
            found |= {scorer if name is None else f"{scorer}.{name}": _inspect_value(v) for name, v in inner}
        epoch = sample.get("epoch")
        yield Scored(
            str(sample.get("id")),
            found,
            label=epoch - 1 if isinstance(epoch, int) else None,
            task=task if isinstance(task, str) else None,
            model=model if isinstance(model, str) else None,
        )


def _inspect_value(value: Any) -> Any:
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return _INSPECT_VALUES.get(value, value) if isinstance(value, str) else value


def _is_evalplus(opened: Opened) -> bool:
    evaluated = opened.document.get("eval") if opened.kind in ("json", "json lines") else None
    return isinstance(evaluated, dict) and "hash" in opened.document and _is_of(evaluated, list)


def _evalplus(opened: Opened) -> Iterator[Scored]:
    """Statuses of every solution: right by ``base`` where it passes these tests, by ``plus`` where it passes all."""
    for item, solutions in opened.document["eval"].items():
        for label, solution in enumerate(solutions):
            status = solution if isinstance(solution, dict) else {}
            base, plus = status.get("base_status"), status.get("plus_status")
            found = {} if base is None else {"base": float(base == "pass")}
            found |= {} if plus is None else {"plus": float(base == plus == "pass")}
            yield Scored(item, found, label=label)


def _is_of(found: Mapping[str, Any], kind: type) -> bool:
    return bool(found) and all(isinstance(value, kind) for value in found.values())


def _is_swe_bench(opened: Opened) -> bool:
    return opened.kind in ("json", "json lines") and (
        isinstance(opened.document.get("resolved_ids"), list)
        or (_is_of(opened.document, dict) and all("resolved" in value for value in opened.document.values()))
    )


def _swe_bench(opened: Opened) -> Iterator[Scored]:
    """Resolved or not. An empty patch is wrong; an evaluation that ended in an error is unknown; what was not submitted
    is not there.
    """
    report = opened.document
    if "resolved_ids" not in report:
        for item, value in report.items():
            yield Scored(str(item), {"resolved": value["resolved"]}, label=0)
        return
    for name, score in (("resolved", 1.0), ("unresolved", 0.0), ("empty_patch", 0.0), ("error", math.nan)):
        for item in report.get(f"{name}_ids") or ():
            yield Scored(str(item), {"resolved": score}, label=0)


_READERS: tuple[tuple[str, Callable[[Opened], bool], Callable[[Opened], Iterator[Scored]]], ...] = (
    ("lm-eval", lambda opened: LmEval().fits(opened) is not None, _lm_eval),
    ("inspect_ai", lambda opened: InspectLog().fits(opened) is not None, _inspect),
    ("evalplus", _is_evalplus, _evalplus),
    ("SWE-bench", _is_swe_bench, _swe_bench),
)
"""What a file is called, whether one is of this kind, and what it says."""
