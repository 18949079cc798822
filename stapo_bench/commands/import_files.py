"""``import``: other tools' samples become a run folder, graded and scored like one of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stapo_bench.commands import options
from stapo_bench.commands.parameters import ContextCommand

if TYPE_CHECKING:
    from stapo_bench.runs.importing import ImportOptions


@click.command("import", cls=ContextCommand)
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=options.RUN, required=True, help="The run folder to be made.")
@click.option("--format", "format_", default="auto", show_default=True, help="A tool's format; auto: by content.")
@click.option("--map", "columns", default="", help="Columns of plain rows: problem=question,completion=out.text,gold=…")
@click.option(
    "--task", "tasks", multiple=True, help="Take only this task's problems; own: match none. Else by content."
)
@click.option("--name", help="What to call a set of problems that is no task of ours.")
@options.data_dir
@click.option("--model", help="Name of the model.")
@click.option("--method", help="How it was trained: its name in tables.")
@click.option("--step", type=click.IntRange(min=0), help="Training step of the checkpoint.")
@click.option("--decoding", help="Preset that the samples were drawn under.")
@click.option("--temperature", type=options.Number(min=0), help="Of the samples, where it is known.")
@click.option("--top-p", type=options.Number(0, 1, min_open=True), help="Of the samples, where it is known.")
@click.option("--max-new-tokens", type=click.IntRange(min=1), help="Limit of the samples, where it is known.")
def import_command(ctx: click.Context) -> None:
    """Make a run of samples that another tool drew; grade and score it.

    PATHS are files, folders or archives of lm-eval, Qwen2.5-Math, inspect_ai, NeMo-Skills, verl, verifiers, evalscope
    and others, or plain JSON lines, CSV and Parquet. The format is found in the content. What a file does not say
    (temperature, seeds, lengths) stays unknown; its own verdicts become a grader beside ours, such as qwen-reported.

    Example: stapo-bench import samples_gsm8k.jsonl --model Qwen3-1.7B --out results/imported
    """
    from stapo_bench.analysis import compare_graders
    from stapo_bench.presenting import finish_run, render_graders, render_import, render_table, rows_from_scores
    from stapo_bench.runs.importing import import_run

    given = ctx.params
    imported = import_run(given["paths"], given["out"], _options(given))
    click.echo(render_import(imported) + "\n")
    if imported.grader is None:
        return
    scored = finish_run(given["out"], data_dir=given["data_dir"], grader=imported.grader)
    click.echo(render_table(rows_from_scores([scored]), long=False))
    if (agreement := compare_graders(given["out"], given["data_dir"])) is not None:
        click.echo("\n" + render_graders(agreement))


def _options(given: Mapping[str, Any]) -> "ImportOptions":
    """The record of what was given; a preset says what its three options would."""
    from stapo_bench.engines import preset
    from stapo_bench.errors import UsageError
    from stapo_bench.runs.importing import ImportOptions, Stated, parse_map
    from stapo_bench.sampling import this_command

    sampling = {name: given[name] for name in ("temperature", "top_p", "max_new_tokens")}
    if given["decoding"]:
        params = preset(given["decoding"])
        if sampling["temperature"] is not None or sampling["top_p"] is not None:
            raise UsageError("--decoding states temperature and top-p: expected it alone, or these two options")
        sampling = {**sampling, "temperature": params.temperature, "top_p": params.top_p}
    return ImportOptions(
        format=given["format_"],
        columns=parse_map(given["columns"]) if given["columns"] else {},
        tasks=given["tasks"],
        name=given["name"],
        data_dir=given["data_dir"],
        stated=Stated(model=given["model"], method=given["method"], step=given["step"], **sampling),
        regime=given["decoding"],
        command=this_command(),
    )
