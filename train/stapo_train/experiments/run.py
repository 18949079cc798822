"""Run experiments on the tiny suite: train, evaluate, compare over seeds, write a page each.

    stapo-bench experiment main controls --jobs 2
    stapo-bench experiment main --dry-run            what it would run, and what that costs
    stapo-bench experiment main --page-only          the page of what is finished so far; runs nothing
    stapo-bench experiment --page-only               the list of all experiments alone

Stopped at any moment and started again, it goes on where it was; a training that two experiments need is made once.
Nothing is deleted. Runs go to ``--out``, pages to ``--results``.
"""

import argparse
import shutil
import signal
import sys
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_train.experiments.design import Experiment, load_experiment
from stapo_train.experiments.index import write_index
from stapo_train.experiments.lanes import run_steps
from stapo_train.experiments.pages import write_page
from stapo_train.experiments.steps import CPU_SECONDS, Step, plan


def estimate(experiment: Experiment, steps: dict[str, Step]) -> str:
    """How many commands of each kind, how many are left, and their CPU time."""
    lines = [f"{experiment.name}: {experiment.question}"]
    left = [step for step in steps.values() if not step.is_done()]
    for kind in CPU_SECONDS:
        if total := sum(step.kind == kind for step in steps.values()):
            times = [step.cpu_s for step in left if step.kind == kind]
            lines.append(f"  {kind:<9} {len(times):4d} of {total:4d} to run   {sum(times) / 60:7.1f} CPU-minutes")
    return "\n".join([*lines, f"  all       {sum(step.cpu_s for step in left) / 3600:.1f} CPU-hours"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", help="names of train/experiments/*.yaml")
    parser.add_argument("--out", type=Path, default=Path("runs/experiments"), help="runs (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=Path("results/experiments"), help="pages (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="commands at once, a core each (default: %(default)s)")
    parser.add_argument("--seeds", type=int, help="run the first so many alone; pages say what is missing")
    parser.add_argument("--dry-run", action="store_true", help="only say what would run")
    parser.add_argument("--page-only", action="store_true", help="write pages of what is finished, and run nothing")
    arguments = parser.parse_args()
    if not (arguments.experiments or arguments.page_only):
        parser.error("expected the name of an experiment, or --page-only for the list of all")
    if arguments.seeds is not None and arguments.seeds < 1:
        parser.error(f"--seeds: expected 1 or more, got {arguments.seeds}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        found = [load_experiment(name) for name in arguments.experiments]
        plans = [plan(experiment, arguments.out, arguments.seeds) for experiment in found]
        if arguments.dry_run:
            print("\n".join(estimate(experiment, steps) for experiment, steps in zip(found, plans, strict=True)))
            together = {name: step for steps in plans for name, step in steps.items() if not step.is_done()}
            hours = sum(step.cpu_s for step in together.values()) / 3600
            print(f"together, what they share counted once: {hours:.1f} CPU-hours")
            return
        if arguments.page_only:
            for experiment in found:
                print(f"written: {write_page(experiment, arguments.out, arguments.results / experiment.name)}")
            print(f"written: {write_index(arguments.results)}")
            return
        if shutil.which("stapo-bench") is None or shutil.which("stapo-train") is None:
            sys.exit("stapo-bench or stapo-train is not on PATH: first 'source scripts/environment.sh'")
        for experiment, steps in zip(found, plans, strict=True):
            print(f"== {experiment.name}", flush=True)
            run_steps(steps, arguments.out, max(1, arguments.jobs))
            page = write_page(experiment, arguments.out, arguments.results / experiment.name)
            write_index(arguments.results)
            print(f"written: {page}", flush=True)
    except StapoError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same command goes on from here")


if __name__ == "__main__":
    main()
