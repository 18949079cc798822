"""The commands of ``stapo-train``: they parse, call and print.

    stapo-train CONFIG.yaml [key=value ...] [--resume]      the same as: stapo-train run CONFIG.yaml ...

``stapo_bench.commands.run_commands`` turns failures into one line and an exit code.
"""

import sys
from pathlib import Path

import click

from stapo_bench import __version__
from stapo_bench.commands import HintingGroup, Number, run_commands
from stapo_bench.errors import StapoError, UsageError, tell
from stapo_train.stopping import when_stopped

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
AT_LEAST_1 = click.IntRange(min=1)
ranks_option = click.option(
    "--ranks",
    "--gpus",
    "ranks",
    metavar="N",
    type=AT_LEAST_1,
    default=1,
    help="Processes that train together, each with a GPU of its own; on a CPU they share it.",
)


class Commands(HintingGroup):
    """The command group, in which a first argument that is no command is a config to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``run`` before a first argument that is no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="stapo-train")
def cli() -> None:
    """Train a checkpoint on with one of the objectives that are being compared.

    Example: stapo-train train/configs/tiny/stapo.yaml iterations=10
    """


@cli.command()
@click.argument("config", type=FILE)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--resume", is_flag=True, help="Go on from the folder's last checkpoint, also to more iterations.")
@click.option("--dump-rollouts", metavar="N,...", default="", help="Keep the last mini-batch of these iterations.")
@ranks_option
def run(config: Path, overrides: tuple[str, ...], resume: bool, dump_rollouts: str, ranks: int) -> None:
    """Train as CONFIG says; the word ``run`` may be left out.

    Example: stapo-train train/configs/tiny/stapo.yaml objective.q=0.5 out=runs/half --resume
    """
    from stapo_train.config import load_config
    from stapo_train.launch import joined, start_ranks
    from stapo_train.preflight import check_before_loading
    from stapo_train.run_folder import opened_folder

    settings = load_config(config, overrides)
    iterations = [int(n) for n in numbers(dump_rollouts)]
    if beyond := [n for n in iterations if n not in range(1, settings.iterations + 1)]:
        raise UsageError(f"--dump-rollouts: expected iterations from 1 to {settings.iterations}, got {beyond[0]}")
    if not (Path(settings.out) / "checkpoints" / "final").is_dir():  # finished: nothing has to be there any more
        check_before_loading(settings, ranks)
    if ranks > 1:
        start_ranks(ranks, ["run", str(config), *overrides, *["--resume"] * resume, f"--dump-rollouts={dump_rollouts}"])
        return
    # On one rank what is wrong with the folder is refused before torch is imported.
    with joined(settings.device) as group, opened_folder(settings, resume=resume, ranks=group) as folder:
        if not folder.tidy_finished():
            from stapo_train.cost.training import said_at_the_start
            from stapo_train.run import train_in

            if group.rank == 0 and (line := said_at_the_start(settings, group.size)):
                tell(sys.stderr, line)

            train_in(folder, settings, iterations, group)
        tell(sys.stdout, f"checkpoint: {folder.final}")


@cli.command()
@click.argument("config", type=FILE)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@ranks_option
@click.option("--memory", metavar="GIB", type=Number(min=1), help="Of a GPU; default: this one's, or 80.")
def cost(config: Path, overrides: tuple[str, ...], ranks: int, memory: float | None) -> None:
    """What a training would take of each GPU's memory, whether that fits, and what would make it fit.

    Example: stapo-train cost train/configs/small/stapo.yaml model=Qwen3-8B --ranks 8 --memory 80
    """
    from stapo_train.config import load_config
    from stapo_train.cost.shapes import read_shape
    from stapo_train.cost.training import described, gpu_here, setup_of
    from stapo_train.preflight import check_several_ranks

    settings = load_config(config, overrides)
    if ranks > 1:
        check_several_ranks(settings)
    shape = read_shape(Path(settings.model))
    gpu = ("a GPU", memory) if memory else gpu_here() or ("a GPU", 80.0)
    click.echo(described(settings, shape, setup_of(settings, *gpu, ranks)))


@cli.command()
@click.argument("config", type=FILE)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
def pretrain(config: Path, overrides: tuple[str, ...]) -> None:
    """Make the tiny suite's base model from nothing.

    Example: stapo-train pretrain train/configs/tiny/base.yaml out=runs/tiny/base
    """
    from stapo_train.tiny.pretrain import load_config, pretrain

    tell(sys.stdout, f"checkpoint: {pretrain(load_config(config, overrides))}")


@cli.command()
@click.argument("dump", type=FOLDER)
@click.option("--objectives", default="grpo,20-entropy,justrl,stapo", show_default=True)
def replay(dump: Path, objectives: str) -> None:
    """Objectives beside each other on a dumped mini-batch: loss, mask, gradient.

    Example: stapo-train replay runs/tiny/stapo/dumps/iteration-000010 --objectives justrl,stapo,full-mask
    """
    from stapo_train.inspect import show
    from stapo_train.inspect.dump import load_dump
    from stapo_train.inspect.replay import replay

    click.echo(show.replayed(replay(load_dump(dump), objectives.split(","))))


@cli.command()
@click.argument("dump", type=FOLDER)
@click.option("--tau-p", default="0.0005,0.001,0.002,0.005,0.01", show_default=True, help="Probabilities.")
@click.option("--q", default="0.25,0.5,0.75,1.0", show_default=True, help="Quantiles of the candidates' entropy.")
@click.option("--objective", default="stapo", show_default=True, help="One with both thresholds.")
def sweep(dump: Path, tau_p: str, q: str, objective: str) -> None:
    """The masked share over thresholds, and the text of what enters or leaves the mask.

    Example: stapo-train sweep runs/tiny/stapo/dumps/iteration-000010 --tau-p 0.001,0.01 --q 0.75
    """
    from stapo_train.inspect import show
    from stapo_train.inspect.dump import load_dump
    from stapo_train.inspect.replay import sweep

    tau_ps, qs = numbers(tau_p), numbers(q)
    loaded = load_dump(dump)
    click.echo(show.swept(loaded, sweep(loaded, tau_ps, qs, objective)))


@cli.command()
@click.argument("dump", type=FOLDER)
@click.option("--objective", default="stapo", show_default=True)
@click.option("--limit", type=AT_LEAST_1, default=50, show_default=True, help="Candidates to show, least likely first.")
@click.option("--tokens", is_flag=True, help="Also write DUMP/tokens.jsonl: every token, for 'stapo-bench report'.")
def audit(dump: Path, objective: str, limit: int, tokens: bool) -> None:
    """Masked and kept candidates in context: probability, entropy, advantage and alternatives.

    Example: stapo-train audit runs/tiny/stapo/dumps/iteration-000010
    """
    from stapo_train.inspect import show
    from stapo_train.inspect.dump import load_dump
    from stapo_train.inspect.replay import audit

    loaded = load_dump(dump)
    click.echo(show.audited(audit(loaded, objective), limit))
    if tokens:
        from stapo_train.inspect.token_file import write_tokens

        click.echo(f"\nwritten: {write_tokens(loaded, objective, dump)}")


@cli.command("check-objective")
@click.argument("name")
@click.option("--long", is_flag=True, help="Also two ranks, and the checks of single tokens at |V| = 151,936.")
def check_objective(name: str, long: bool) -> None:
    """Is an objective computed exactly? Invariances, a slow reference, finite differences, the paper's identities.

    Example: stapo-train check-objective stapo
    """
    from stapo_train.objectives import require_known

    require_known(name)
    from stapo_train.check.check_objective import check_objective

    failed = 0
    for check in check_objective(name, ranks=long, large_vocabulary=long):
        failed += not check.passed
        verdict = "n/a " if not check.applicable else "ok  " if check.passed else "FAIL"
        click.echo(f"{verdict} {check.name:<45} {check.deviation:8.1e}  {check.note}".rstrip())
    if failed:
        raise StapoError(f"{name}: {failed} checks failed")
    if not long:
        click.echo("--long adds two ranks, and the checks of single tokens at |V| = 151,936: half a minute more")


@cli.command()
@click.argument("runs", type=FOLDER, nargs=-1, required=True)
def stability(runs: tuple[Path, ...]) -> None:
    """Entropy stability of training runs: score, and whether entropy collapsed or exploded.

    Example: stapo-train stability runs/tiny/grpo runs/tiny/stapo
    """
    from stapo_train.inspect import show
    from stapo_train.inspect.stability import read_entropies, stability

    found = {}
    for run in runs:
        try:
            found[str(run)] = stability(read_entropies(run))
        except StapoError as error:
            raise StapoError(str(error) if str(run) in str(error) else f"{run}: {error}") from None
    click.echo(show.stabilities(found))


def numbers(text: str) -> list[float]:
    """``0.5,0.75`` as numbers."""
    try:
        return [float(part) for part in text.split(",") if part]
    except ValueError:
        raise UsageError(f"expected numbers separated by commas, got '{text}'") from None


def main() -> None:
    """The console script."""
    run_commands(cli, "stapo-train", when_stopped=when_stopped(), models="train")
