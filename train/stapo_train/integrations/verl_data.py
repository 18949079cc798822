"""Writes training problems as the parquet file that verl reads.

    python -m stapo_train.integrations.verl_data CONFIG.yaml train.parquet [key=value ...]

The problems are those that ``stapo-train CONFIG.yaml`` would train on: the same source, filters and question text, in
the order of the source; verl shuffles. verl renders every prompt with the model's chat template; ``chat_template``
expresses any other prompt format as one, for verl's ``actor_rollout_ref.model.custom_chat_template``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from stapo_bench.commands import run_commands
from stapo_bench.errors import UsageError
from stapo_bench.records import Problem
from stapo_bench.runs import replacing
from stapo_bench.tasks import render_question
from stapo_train.data_config import STYLE_KEYS, DataConfig

_FORMATS = {
    "base": "{% for message in messages %}User: {{ message['content'] }}\n\nAssistant:{% endfor %}",
    "plain": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
}


def chat_template(prompt_format: str) -> str | None:
    """A prompt format of ours as a chat template of one message; None for ``chat``, which is the model's own."""
    return _FORMATS.get(prompt_format)


def refuse_style(data: DataConfig) -> None:
    """Refuse what a row has no place for: it holds the question alone, which verl asks in the model's chat template.

    Raises:
        UsageError: something is to stand around the question.
    """
    for name in STYLE_KEYS:
        if (value := getattr(data, name)) is not None:
            raise UsageError(f"data.{name} {str(value)[:60]!r}: expected none, as verl gets the question alone")


def verl_rows(problems: Iterable[Problem], question: str) -> list[dict[str, Any]]:
    """The problems as verl's rows.

    Args:
        problems: in order.
        question: jinja2 over ``problem``, as ``data.question`` of a config.
    """
    return [
        {
            "data_source": problem.task,
            "prompt": [{"role": "user", "content": render_question(question, problem)}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.gold.answer},
            "extra_info": {
                "index": index,
                "problem_id": problem.problem_id,
                "answer_type": problem.gold.answer_type,
                "question": problem.question,
            },
        }
        for index, problem in enumerate(problems)
    ]


def write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    """Write verl's rows atomically."""
    from datasets import Dataset

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        Dataset.from_list(rows).to_parquet(beside)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
def main(config: Path, out: Path, overrides: tuple[str, ...]) -> None:
    """Write the problems that CONFIG trains on to OUT, a parquet file for verl's data.train_files.

    Example: python -m stapo_train.integrations.verl_data train/configs/paper/8b-stapo.yaml data/train.parquet
    """
    from stapo_train.config import load_config
    from stapo_train.data import load_problems

    settings = load_config(config, overrides)
    refuse_style(settings.data)
    rows = verl_rows(load_problems(settings.data, settings.seed), settings.data.question)
    write_parquet(rows, out)
    click.echo(f"{len(rows)} problems: {out}")
    template = chat_template(settings.data.prompt_format)
    if template is not None:
        click.echo(f"chat template of prompt_format {settings.data.prompt_format}: {template!r}")


if __name__ == "__main__":
    run_commands(main, "verl-data", when_stopped="nothing was written; run the same command again")
