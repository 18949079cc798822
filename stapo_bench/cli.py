"""The command ``stapo-bench``. Its commands stand in ``commands/``; ``entry`` turns failures into one line."""

import difflib

import click

from stapo_bench import __version__
from stapo_bench.commands import decide, draw, plot, report, score, tasks
from stapo_bench.commands.entry import run_commands


class Commands(click.Group):
    """A group that suggests the nearest command for one it does not know."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"commands: {', '.join(self.list_commands(ctx))}"
            raise click.UsageError(f"unknown command '{args[0]}': {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="stapo-bench")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Did this RL objective make the model better at mathematics, and how sure are we?"""
    ctx.obj = {"debug": debug}


for command in (
    draw.eval_command,
    draw.continue_command,
    score.grade,
    score.score,
    score.table,
    score.truncation,
    score.export,
    decide.compare,
    decide.plan,
    decide.audit,
    decide.curve,
    decide.regimes,
    plot.plot,
    tasks.tasks,
    tasks.overlap,
    report.report,
    report.watch,
):
    cli.add_command(command)


def main() -> None:
    """The console script."""
    run_commands(cli, "stapo-bench", when_stopped="what is finished is safe: run the same command again to go on")
