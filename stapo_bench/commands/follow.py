"""The command ``follow``: the checkpoints of a training, evaluated while it goes on."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from stapo_bench.commands import options
from stapo_bench.commands.evaluate import asked_of_a_checkpoint, options_of
from stapo_bench.commands.parameters import ContextCommand, record_of
from stapo_bench.errors import UsageError, tell


@click.command(cls=ContextCommand)
@click.argument("ckpt_dir", type=options.RUN)
@click.option(
    "--base",
    type=click.Path(path_type=Path),
    help="Checkpoint, or model of the hub, that all others are compared with; default: the first one of the training.",
)
@click.option("--revision", help="Branch, tag or commit of the hub's model; default: main.")
@click.option("--until", type=click.IntRange(min=1), help="Evaluate no later step, and end when this one is reached.")
@click.option("--once", is_flag=True, help="End when every checkpoint that is complete now is done.")
@click.option(
    "--every",
    "every_s",
    type=options.Number(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds between two looks at CKPT_DIR.",
)
@click.option(
    "--log",
    "trackers",
    type=click.Choice(["mlflow", "tensorboard", "wandb"]),
    multiple=True,
    help="Log every checkpoint's scores, by its step, there too; may be repeated.",
)
@asked_of_a_checkpoint
@click.option("--out", type=options.RUN, required=True, help="Folder of all run folders and of the curve.")
def follow(ctx: click.Context) -> None:
    """Evaluate a training's checkpoints as they appear, and say when its gain is shown.

    CKPT_DIR is what stapo-train, TRL (any Trainer of transformers) or verl writes to. A checkpoint is evaluated once it
    is complete, the earliest first, until it is told from the base or hardly will be; the base gets all samples. After
    each the curve is written anew: curve.md, curve.json and curve.svg in --out. Stopped and started again, it goes on
    where it was. It ends by itself where the training says that it has finished (stapo-train).

    Example: stapo-bench follow runs/stapo --base Qwen3-1.7B --decoding justrl --tasks aime24 --out results/stapo
    """
    from stapo_bench.grading import DEFAULT_GRADER
    from stapo_bench.presenting import finish_run, first_shown, followed_line, write_curve
    from stapo_bench.presenting.exporting import open_logs
    from stapo_bench.runs import local_checkpoint
    from stapo_bench.sampling import Entry, EvalOptions, FollowOptions
    from stapo_bench.sampling import follow as follow_training

    given, command = ctx.params, shlex.join(["stapo-bench", *sys.argv[1:]])
    common, out = options_of(given), given["out"]
    if common["engine"].base_urls:
        raise UsageError("--base-url: expected an engine that loads checkpoints; a server has one model")
    asked = record_of(EvalOptions, {**common, "checkpoint": None})
    base = given["base"] and local_checkpoint(given["base"], given["revision"])
    following = record_of(FollowOptions, {**given, "folder": given["ckpt_dir"], "base": base, "asked": asked})
    entries: Sequence[Entry] = ()
    with open_logs(given["trackers"], out) as log:
        for ended in follow_training(following, sys.stderr):
            for entry in ended[len(entries) :]:
                if entry.state != "vanished":
                    finish_run(out / entry.run, data_dir=given["data_dir"])
                log(entry)
                tell(sys.stdout, followed_line(entry))
            entries = ended
            write_curve(out, entries, DEFAULT_GRADER, command)
    tell(sys.stdout, first_shown(entries))
