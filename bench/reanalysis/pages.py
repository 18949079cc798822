"""Facts as pages, one for each data set. Nothing is computed here that takes data."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.reanalysis.record import DataSet
from stapo_bench.presenting import change_interval, percent, points, score_interval
from stapo_bench.presenting.words import counted, markdown_line, markdown_row, p_value
from stapo_bench.statistics import Interval

Facts = Mapping[str, Any]

COMMAND = "python -m bench.reanalysis --data DIR"
_NAN = float("nan")
_SAID = {"better": "better", "worse": "worse", "tied": "tied", "not enough data": "not told apart"}
_EQUAL = r"(\d+) of (\d+) samples are equal in (\S+) and ([^\s,;]+)"  # as the audit says it
_FEWEST = 30  # problems of a score that the sentence on top speaks of
_LONGEST = 12  # lines of copies that a page lists


def page(data_set: DataSet, facts: Facts, summary: Facts) -> str:
    """One data set."""
    parts = [
        ("Scores", _scores(facts)),
        ("Where the script and our grader differ", [*_disputes(facts), *_labels(facts)]),
        ("What the comparisons can show", _comparisons(facts)),
        ("Checkpoints", _curves(facts)),
        ("Means without samples", _printed(facts)),
        ("Copies and damage", _damage(facts)),
    ]
    lines = [f"# {data_set.title}", "", f"**{verdict(facts)}**", "", data_set.about, ""]
    samples, files = (sum(run[of] for run in facts["runs"]) for of in ("samples", "files"))
    repositories = ", ".join(f"[{name}](https://github.com/{name})" for name in data_set.repositories)
    lines += [
        f"From {repositories}: {samples:,} samples in {counted(files, 'file')}, judged by {summary['grader']}.",
        "",
    ]
    remarks = dict.fromkeys(run["remark"] for run in facts["runs"] if run["remark"])
    for remark in remarks:
        names = ", ".join(run["name"] for run in facts["runs"] if run["remark"] == remark)
        lines.append(markdown_line(f"* {names}: {remark}."))
    lines += [""] if remarks else []
    for title, part in parts:
        if found := list(part):
            lines += [f"## {title}", "", *found, ""]
    lines.append(f"Made by `{COMMAND}`; `summary.json` holds the numbers.")
    return "\n".join(lines) + "\n"


def verdict(facts: Facts) -> str:
    """The sentence on top: what the comparisons show, and how far two graders of the same samples are apart."""
    said = []
    if rows := facts["comparisons"]:
        counts = Counter(row["verdict"] for row in rows)
        shown = counts["better"] + counts["worse"]
        rest = [(counts["tied"], "a tie"), (counts["not enough data"], "cannot tell")]
        said.append(
            f"{shown} of {counted(len(rows), 'comparison')} {'shows' if shown == 1 else 'show'} a difference for "
            "problems like these" + "".join(f", {count} {what}" for count, what in rest if count)
        )
    for curve in facts["curves"]:
        above = [point["step"] for point in curve["points"][1:] if point["band"][0] > 0 or point["band"][1] < 0]
        steps = f"step {', '.join(map(str, above))}" if above else "no later checkpoint"
        said.append(f"{steps} of {curve['title']} is told from its first")
    changes = [
        found
        for training in facts.get("printed", ())
        for task in training["tasks"]
        for found in task["changes"]["these problems"]
    ]
    if changes:
        told = sum(found in {"shown", "likely"} for found in changes)
        said.append(
            f"of {len(changes)} changes of a printed mean from one checkpoint to the next, {told} are more than "
            "sampling noise"
        )
    if shared := [found for text in facts["copies"] if (found := _many_equal(text))]:
        pairs = "; ".join(f"{found[3]} and {found[4]}, {found[1]} of {found[2]} completions" for found in shared)
        said.append(f"runs of different names that are equal word by word: {pairs}")
    judged = [(run, task) for run, task in tasks_of(facts) if has_both(task) and task["problems"] >= _FEWEST]
    apart = [(abs(task["script"] - task["value"]), run, task) for run, task in judged]
    if apart:
        gap, run, task = max(apart, key=lambda item: item[0])
        if gap >= 0.0005:
            said.append(
                f"the script's score and ours are up to {100 * gap:.1f} points apart on the same samples "
                f"({run['name']} on {task['task']}: {percent(task['script'], 1)} and {percent(task['value'], 1)})"
            )
        else:
            said.append("the scripts and our grader score the same samples alike")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def tasks_of(facts: Facts) -> Iterator[tuple[Facts, Facts]]:
    """Every run with each of its tasks."""
    for run in facts["runs"]:
        for task in run["tasks"]:
            yield run, task


def has_both(task: Facts) -> bool:
    """Whether the script and our grader judged it."""
    return task["script"] is not None and task["value"] is not None


def _scores(facts: Facts) -> Iterator[str]:
    yield "| Run | Task | problems × samples | script | ours | these problems | problems like these | no answer |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for run, task in tasks_of(facts):
        size = f"{task['problems']} × {task['k']}" + (
            f" of {task['asked']}" if task["asked"] > task["problems"] else ""
        )
        is_ours = not run["grader"].endswith("-reported")
        script = task["script"] if is_ours else task["value"]
        ours = [task["value"], task["these"], task["like"]] if is_ours else [None, task["these"], task["like"]]
        yield markdown_row(
            [run["name"], task["task"], size, _percent(script), _percent(ours[0])]
            + [score_interval(_interval(bounds)) for bounds in ours[1:]]
            + [percent(task["no_answer"] / task["samples"], 1) if is_ours else "–"]
        )


def _disputes(facts: Facts) -> Iterator[str]:
    found = [(run, task) for run, task in tasks_of(facts) if task["disputes"]]
    if not found:
        return
    yield "Samples that one of both accepts, by the form of the gold."
    yield ""
    yield "| Run | Task | samples | ours alone | of these | the script alone | of these |"
    yield "|---|---|---:|---:|---|---:|---|"
    for run, task in found:
        cells = [cell for who in ("ours", "script") for cell in _kinds(task["disputes"], who)]
        yield markdown_row([run["name"], task["task"], str(task["samples"]), *cells])


def _labels(facts: Facts) -> Iterator[str]:
    """Where it is known who is right."""
    found = [run["labels"] for run in facts["runs"] if run["labels"] and run["labels"]["script_wrong"] is not None]
    if found:
        checked, ours, script = (
            sum(labels[of] for labels in found) for of in ("checked", "ours_wrong", "script_wrong")
        )
        yield ""
        yield (
            f"Of {checked:,} of these completions it is known whether they are right (two independent checks that "
            f"agree, or a reader): the script is wrong on {script}, our grader on {ours}."
        )


def _kinds(disputes: Mapping[str, int], who: str) -> tuple[str, str]:
    kinds = {key.removeprefix(f"{who}: "): count for key, count in disputes.items() if key.startswith(f"{who}: ")}
    listed = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
    return str(sum(kinds.values())), listed or "–"


def _comparisons(facts: Facts) -> Iterator[str]:
    if not facts["comparisons"]:
        return
    yield (
        "In points, B − A; 95 %. Better and worse: for problems like these, p below 5 % (Holm over a comparison's "
        "tasks); tied: shown to differ by less than 2 points."
    )
    yield ""
    yield (
        "| A → B | Task | problems | A | B | B − A | these problems | problems like these | p | verdict | won : lost "
        "| detectable | needed | by the script |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---|"
    for row in facts["comparisons"]:
        pairs = "–" if row["won"] is None else f"{row['won']} : {row['lost']}"
        script = row["script"]
        by_script = (
            f"{points(script['gain'])}, {_SAID[script['verdict']]}" if script and script["gain"] is not None else "–"
        )
        yield markdown_row(
            [f"{row['a']} → {row['b']}", row["task"], str(row["problems"]), _percent(row["value_a"])]
            + [_percent(row["value_b"]), points(_or_nan(row["gain"]))]
            + [change_interval(_interval(row[error])) for error in ("these", "like")]
            + [p_value(_or_nan(row["p"])), _SAID[row["verdict"]], pairs, _size(row["detectable"])]
            + [_many(row["problems_needed"]), by_script]
        )


def _curves(facts: Facts) -> Iterator[str]:
    if not facts["curves"]:
        return
    yield f"![Checkpoints with simultaneous bands]({facts['name']}.svg)"
    for curve in facts["curves"]:
        tasks = ", ".join(curve["tasks"])
        yield ""
        yield (
            f"{curve['title']}, {tasks}, {counted(curve['problems'], 'problem')}: over the first checkpoint, in "
            f"points; the bands hold together with 95 % ({curve['critical']:.2f} standard errors)."
        )
        yield ""
        yield "| step | avg@k | over the first | band |"
        yield "|---:|---:|---:|---:|"
        for i, point in enumerate(curve["points"]):
            band = "–" if i == 0 else change_interval(_interval(point["band"]))
            yield f"| {point['step']} | {_percent(point['value'])} | {points(_or_nan(point['gain']))} | {band} |"


def _printed(facts: Facts) -> Iterator[str]:
    trainings = facts.get("printed", ())
    if not trainings:
        return
    yield (
        "Each mean with half its 95 % interval, at the most that mean and protocol allow: for these problems, and "
        "for problems like these. Where pass@k is printed beside pass@1, both give the share of the variance that "
        "lies between problems."
    )
    for training in trainings:
        for task in training["tasks"]:
            first = task["points"][0]
            yield ""
            yield f"{training['training']}, {task['task']}, {first['problems']} × {first['k']}:"
            yield ""
            yield "| step | mean | these problems, ± | problems like these, ± | between problems | from the last step |"
            yield "|---:|---:|---:|---:|---:|---|"
            said = ["–", *task["changes"]["these problems"]]
            for point, change in zip(task["points"], said, strict=True):
                between = "–" if point["between"] is None else percent(point["between"], 0)
                yield (
                    f"| {point['step']} | {_percent(point['value'])} | {100 * point['these']:.1f} | "
                    f"{100 * point['like']:.1f} | {between} | {change} |"
                )


def _damage(facts: Facts) -> Iterator[str]:
    told = [text for text in facts["copies"] if "does not tell" not in text or _many_equal(text)]
    found = [text for run in facts["runs"] for text in run["audit"]] + told
    yield from (markdown_line(f"* {text}") for text in found[:_LONGEST])
    if len(found) > _LONGEST:
        yield f"* and {len(found) - _LONGEST} more of the kind; `summary.json` lists them"


def _many_equal(text: str) -> "re.Match[str] | None":
    """Two runs that share a quarter of their completions or more; short ones are often equal by chance."""
    found = re.match(_EQUAL, text)
    return found if found and 4 * int(found[1]) >= int(found[2]) else None


def _interval(bounds: Sequence[float | None]) -> Interval:
    return Interval(low=_or_nan(bounds[0]), high=_or_nan(bounds[1]))


def _or_nan(value: float | None) -> float:
    return _NAN if value is None else value


def _percent(value: float | None) -> str:
    return percent(_or_nan(value), 1)


def _size(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _many(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}" if number < 100_000 else "over 100,000"
