"""How commands run: failures become one line and an exit code, and idle threads sleep.

Exit 0: done. 1: failed, with one clear line (traceback with ``--debug``). 2: not understood. 3: done, and ``audit``
found something. 4, 5: done, and a gate of ``compare`` failed, or is undecided. 130, 143: stopped by Ctrl-C,
or by SIGTERM.
"""

import logging
import os
import re
import sys
import traceback

import click

from stapo_bench.errors import (
    StapoError,
    did_you_mean,
    exit_code_of,
    interruptible,
    missing_package,
    safe_output,
    safe_text,
    stopped_line,
    watching,
)

FINDINGS = 3
"""Exit code of a command that did its work and found what ought not to be there."""


class HintingGroup(click.Group):
    """Commands; for one that it does not know, the nearest is suggested. Its list has a whole clause of each."""

    def headed(self, ctx: click.Context) -> dict[str, list[str]]:
        """Names of all commands by the heading that they stand under."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click's own list, which cuts a sentence in the middle of a clause where it is too long for the line."""
        width = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        for title, names in self.headed(ctx).items():
            found = {name: command for name in names if (command := self.get_command(ctx, name))}
            rows = [(name, first_clauses(command.get_short_help_str(10_000), width)) for name, command in found.items()]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click's own, with a better message for a command that does not exist."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            known = self.list_commands(ctx)
            hint = did_you_mean(args[0], known) or f"commands: {', '.join(known)}"
            raise click.UsageError(f"unknown command '{args[0]}': {hint}", ctx)
        return super().resolve_command(ctx, args)


def first_clauses(text: str, width: int) -> str:
    """The beginning of a text that fits, up to a stronger mark than a comma, or to a comma where there is none.

    >>> first_clauses("Did B get better than A? Paired by problem, with intervals.", 45)
    'Did B get better than A?'
    >>> first_clauses("Draw a figure, with this command in its metadata", 30)
    'Draw a figure'
    """
    if len(text) <= width:
        return text
    for marks in (r"[?;:.](?=\s|$)", r",(?=\s)"):
        ends = [found.end() if found[0] == "?" else found.start() for found in re.finditer(marks, text)]
        if fitting := [end for end in ends if end <= width]:
            return text[: fitting[-1]]
    return text[:width].rstrip()


def run_commands(commands: click.Command, name: str, *, when_stopped: str | None, models: str = "eval") -> None:
    """Run the command that the arguments name, and exit.

    Args:
        commands: all of them, or the one there is.
        name: the console script's, before every message.
        when_stopped: what Ctrl-C, or a batch system's SIGTERM, leaves behind and how to go on; None: say nothing.
        models: the extra that installs torch and the packages that come with it, for these commands.
    """
    # Before torch is imported: OpenMP threads that spin at barriers slow a busy machine down many times over.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for logger in ("torchao", "torch.utils._pytree"):  # transformers imports it, and it tells of others' kernels
        logging.getLogger(logger).setLevel(logging.ERROR)
    os.environ["MPLBACKEND"] = "agg"  # figures go to files; a notebook names a backend that only its kernel may have
    with safe_output(), interruptible(name, when_stopped), watching():
        _run(commands, name, when_stopped, models)


def _run(commands: click.Command, name: str, when_stopped: str | None, models: str) -> None:
    """``run_commands``, its outputs made safe."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    if not arguments and isinstance(commands, click.Group):
        arguments = ["--help"]
    try:
        commands.main(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()  # here what cannot be written is still an error of the command
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (KeyboardInterrupt, click.Abort) as stop:
        if when_stopped is None:
            sys.exit(exit_code_of(stop))
        _fail(stopped_line(name, when_stopped), exit_code_of(stop), debug)
    except click.ClickException as error:
        _fail(_line(name, _with_help(error, _path(commands, name, arguments))), error.exit_code, debug)
    except StapoError as error:
        _fail(_line(name, str(error)), error.exit_code, debug)
    except BrokenPipeError:  # the reader of our output left: ``stapo-bench table … | head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a file that cannot be read or written, a full disk, no file handle left
        place = f"{error.filename}: " if error.filename is not None else ""
        _fail(_line(name, f"{place}{error.strerror or error}; put that right and run the same command again"), 1, debug)
    except ModuleNotFoundError as error:
        message = missing_package(error.name or "", models)
        _fail(_line(name, message or f"unexpected {type(error).__name__}: {error} (--debug shows where)"), 1, debug)
    except Exception as error:  # a defect of ours: still one line, and the way to more
        _fail(_line(name, f"unexpected {type(error).__name__}: {error} (--debug shows where)"), 1, debug)


def _path(commands: click.Command, name: str, arguments: list[str]) -> str:
    """The command that was meant: the console script's name, and its first argument where that is a command of it."""
    known = commands.list_commands(click.Context(commands)) if isinstance(commands, click.Group) else []
    return f"{name} {arguments[0]}" if arguments and arguments[0] in known else name


def _with_help(error: click.ClickException, path: str) -> str:
    """Click's message with the way to the command's help; ``path``: where click does not say which command it is."""
    ctx = getattr(error, "ctx", None)
    return f"{' '.join(error.format_message().split())} (see '{ctx.command_path if ctx else path} --help')"


def _line(name: str, message: str) -> str:
    """A failure in one line; lines of ours that follow it are indented, and nothing else begins a new one."""
    return f"{name}: " + "\n  ".join(safe_text(part, "terminal") for part in message.split("\n  "))


def _fail(line: str, exit_code: int, debug: bool) -> None:
    if debug:
        click.echo(traceback.format_exc(), err=True)
    click.echo(line, err=True)
    sys.exit(exit_code)
