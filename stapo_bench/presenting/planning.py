"""A plan in words: how many samples, or problems, a difference needs."""

import json
from dataclasses import asdict

from stapo_bench.analysis import Need, SamplePlan, TaskPlan, as_json
from stapo_bench.presenting.words import counted, markdown_line, markdown_table, percent, require_md_or_json


def render_plan(plan: SamplePlan, format_: str = "md") -> str:
    """A plan as Markdown or JSON."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(as_json(asdict(plan)), indent=2)
    goal = f"a difference of {counted(100 * plan.detect, 'point')} with {percent(plan.power, 0)} % power"
    lines = [
        markdown_line(f"**{_plan_sentence(plan, goal)}**"),
        "",
        markdown_line(
            f"{plan.name_a} and {plan.name_b}; N = samples per problem and run (now: harmonic mean of those decided; "
            "A / B where they differ), with the range that these runs leave open. Cost: what each run lacks of N for "
            "problems like these (for these problems, where none is enough), at the tokens and seconds measured in "
            "them."
        ),
        "",
        *markdown_table(_COLUMNS, map(_cells, plan.tasks)),
        "",
        "Power now: for these problems / for problems like these.",
        *(markdown_line(f"- {note}") for note in plan.notes),
    ]
    return "\n".join(lines)


_COLUMNS = (
    *("Task", "problems × N now", "power now", "N for these problems", "N for problems like these"),
    *("or problems at N now", "more problems help more", "further tokens", "further sample-hours"),
)


def _cells(task: TaskPlan) -> list[str]:
    like = task.problems_like_these
    return [
        task.title,
        f"{task.components.num_problems} × {_present(task)}",
        f"{percent(task.these_problems.power, 0)} % / {percent(like.power, 0)} %",
        _range(task.these_problems),
        _range(like),
        str(like.num_problems),
        "yes" if task.more_problems_help_more else "no",
        *_cost(task),
    ]


def _plan_sentence(plan: SamplePlan, goal: str) -> str:
    """What the goal takes on the task that needs most."""
    hopeless = [task.title for task in plan.tasks if task.problems_like_these.shown_hopeless]
    if hopeless:
        return f"To find {goal}: no number of samples is enough on {', '.join(hopeless)}; more problems are needed."
    open_ = [
        f"{task.title} ({_left_open(like)})"
        for task in plan.tasks
        if (like := task.problems_like_these).num_samples is None
    ]
    if open_:
        return (
            f"To find {goal}: these runs do not tell how many samples it takes on {', '.join(open_)}; a pilot with "
            "more samples would, and more problems are the safe way."
        )
    like, these = (
        max(needs, key=lambda need: need.num_samples or 0)
        for needs in ([t.problems_like_these for t in plan.tasks], [t.these_problems for t in plan.tasks])
    )
    better = [task.title for task in plan.tasks if task.more_problems_help_more]
    return (
        f"To find {goal} on every task: {like.num_samples} samples per problem for problems like these, "
        f"{these.num_samples} for these problems (these runs leave open {_left_open(like)}, "
        f"and {_left_open(these)})" + (f"; more problems would help more on {', '.join(better)}." if better else ".")
    )


def _left_open(need: Need) -> str:
    """The range of samples that the runs leave open."""
    if need.most is None:
        return f"at least {need.fewest}, perhaps no number is enough"
    return f"{need.fewest} to {need.most}"


def _range(need: Need) -> str:
    """The number of samples, with the range that the runs leave open."""
    if need.shown_hopeless:
        return "none is enough"
    return f"{'not known' if need.num_samples is None else need.num_samples} ({_left_open(need)})"


def _present(task: TaskPlan) -> str:
    """N now of both runs, or of A / B where they differ."""
    return " / ".join(dict.fromkeys(f"{round(samples, 1):g}" for samples in task.num_samples))


def _cost(task: TaskPlan) -> tuple[str, str]:
    """Tokens and sample-hours that both runs together still need."""
    wanted = task.problems_like_these.num_samples or task.these_problems.num_samples or 0
    further = task.components.num_problems * sum(max(0.0, wanted - present) for present in task.num_samples)
    seconds = task.seconds_per_sample
    hours = "not measured" if seconds is None else f"{further * seconds / 3600:.2f}"
    tokens = task.tokens_per_sample
    return "unknown" if tokens is None else f"{further * tokens:,.0f}", hours
