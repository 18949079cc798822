"""The command ``stapo-bench``: the harness's commands and those of the entry-point group ``stapo_bench.commands``."""

from typing import Any

import click

from stapo_bench import __version__
from stapo_bench.commands import COMMANDS, HintingGroup, run_commands


class Commands(HintingGroup):
    """Our commands, then those that installed packages offer, looked for where ours do not suffice."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names: ours in alphabetical order, then the others."""
        return [*super().list_commands(ctx), *(name for name in sorted(_offered()) if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, ours before another's; None: there is none."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in (offered := _offered()):
            command: click.Command = offered[cmd_name].load()
            return command
        return found


def _offered() -> dict[str, Any]:
    """Entry points by name."""
    from importlib.metadata import entry_points  # takes time, which our own commands should not

    return {point.name: point for point in entry_points(group="stapo_bench.commands")}


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
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
