"""Tasks in words: their list, the card of one, and which of their problems stand in a training set."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from stapo_bench.errors import safe_text
from stapo_bench.presenting.words import percent, require_md_or_json
from stapo_bench.tasks import Overlap, Task, load_errata, style_in_words


def task_line(task: Task) -> str:
    """A task in the list of tasks."""
    counts = f"{task.num_problems:>4} problems × {task.num_samples:>2}"
    return safe_text(f"{task.name:<18} {task.suite:<10} {counts}  {task.title}", "terminal")


def task_card(task: Task) -> str:
    """What is known of a task, one line per fact."""
    source = task.source
    place = f"generated ({source.generator['name']})" if source.generator else f"{source.path} ({source.split})"
    errata = load_errata().of_task(task.name)
    facts = {
        "title": task.title,
        "suite": task.suite,
        "problems": task.num_problems,
        "samples per problem": task.num_samples,
        "source": place,
        "revision": source.revision or "not known; the digest decides",
        "content digest": task.digest or "not recorded",
        "prompt format": ", ".join(filter(None, (task.prompt_format, style_in_words(task.style)))),
        **({} if task.tool is None else {"replies may call": task.tool}),
        "answer type": task.answer_type or "inferred from the gold",
        "licence": task.licence,
        "notes": task.notes or "none",
        "errata": "none known" if not errata else "",
    }
    lines = [f"  {name}: {value}".rstrip() for name, value in facts.items()]
    lines += [f"    {item.id} ({item.kind}): {item.reason}" for item in errata]
    return "\n".join(safe_text(line, "terminal") for line in (task.name, *lines))


def render_overlaps(found: Mapping[str, Sequence[Overlap]], format_: str = "md") -> str:
    """The problems of each task that stand in a training set: a line per task and one per problem, or JSON."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps([asdict(overlap) for overlaps in found.values() for overlap in overlaps], indent=2)
    lines = []
    for task, overlaps in found.items():
        lines.append(f"{task}: {len(overlaps)} problems stand in the training set")
        lines += [f"  {o.problem_id}  row {o.row}  {percent(o.share, 0)} % of its words" for o in overlaps]
    return "\n".join(safe_text(line, "terminal") for line in lines)
