"""The command ``stapo-bench``: the harness's commands and those of the entry-point group ``stapo_bench.commands``."""

from typing import cast

import click

from stapo_bench import __version__
from stapo_bench.commands import COMMANDS, HintingGroup, run_commands
from stapo_bench.plugins import load_offered, offered

GROUP = "stapo_bench.commands"


class Commands(HintingGroup):
    """The built-in commands, then those of installed packages, which are looked up only when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names: ours in the order of ``COMMANDS``, then the others."""
        return [*self.commands, *offered(GROUP, self.commands)]

    def headed(self, ctx: click.Context) -> dict[str, list[str]]:
        """Ours under their headings, then those of other packages."""
        ours = {title: [str(command.name) for command in commands] for title, commands in COMMANDS.items()}
        others = [*offered(GROUP, self.commands)]
        return {**ours, "More": others} if others else ours

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, ours before another's; None: there is none."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in (places := offered(GROUP)):
            return cast(click.Command, load_offered(f"command {cmd_name}", places[cmd_name]))
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="stapo-bench")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Did this RL objective make the model better at mathematics, and how sure are we?"""
    ctx.obj = {"debug": debug}


for commands in COMMANDS.values():
    for command in commands:
        cli.add_command(command)


def main() -> None:
    """The console script."""
    run_commands(cli, "stapo-bench", when_stopped="what is finished is safe: run the same command again to go on")
