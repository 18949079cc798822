"""The command ``plot``: a figure from run folders and training logs."""

import shlex
import sys
from pathlib import Path

import click

from stapo_bench.commands import options
from stapo_bench.errors import tell


@click.command()
@click.argument("name")
@click.argument("runs", type=options.RUN, nargs=-1, metavar="[RUN]...")
@options.training_logs("Training log: a folder that stapo-train wrote, or a folder of such folders; may be repeated.")
@options.grader
@click.option("-o", "--out", type=options.FIGURE, required=True, help="fig.pdf, fig.svg or fig.png")
def plot(name: str, runs: tuple[Path, ...], logs: tuple[Path, ...], grader: str, out: Path) -> None:
    """Draw a figure fit for a two-column paper, with this command in its metadata; prints its caption.

    \b
    From training logs: entropy, reward, length, entropy-quantiles, candidate-entropy, masked; with dumps: tokens,
    gradients
    From runs: accuracy, ablation, budget, problems, pass-at-k, differences, ranking, seeds, seeds-problems
    From both: pareto, sensitivity

    Example: stapo-bench plot entropy --train runs/tiny/grpo --train runs/tiny/stapo -o entropy.pdf
    """
    from stapo_bench.presenting.figures import Sources, caption, save

    sources = Sources(runs=runs, logs=logs, grader=grader)
    save(name, sources, out, shlex.join(["stapo-bench", *sys.argv[1:]]))
    tell(sys.stdout, f"{out}: {caption(name, sources)}")
