"""The command ``stapo-bench``."""

import click

from stapo_bench import __version__
from stapo_bench.commands import COMMANDS, HintingGroup, run_commands


@click.group(cls=HintingGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="stapo-bench")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Did this RL objective make the model better at mathematics, and how sure are we?"""
    ctx.obj = {"debug": debug}


for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """The console script."""
    run_commands(cli, "stapo-bench", when_stopped="what is finished is safe: run the same command again to go on")
