"""One GPU of 80 to 141 GB, under an hour: four trainings with vLLM rollouts, ten evaluations, the table.

Without ``--base`` a model of 20 M parameters is made from nothing and trained on the tiny suite's harder levels. With
it, a checkpoint of your own (Qwen3-1.7B-Base, say) is trained on DAPO-Math-17K, with short responses, and evaluated on
three of the paper's tasks. Time and memory are estimated first, by ``stapo_train.cost``.

    scripts/reproduce_table.sh --scale small [--base PATH] [--out DIR] [--gpu h100] [--dry-run] [KEY=VALUE ...]

KEY=VALUE changes the trainings, as of ``stapo-train``; ``pretrain.KEY=VALUE`` the base model's making and
``eval.OPTION=VALUE`` the evaluations. Stopped and started again, it goes on where it was.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from stapo_bench.engines import REGIMES, default_device
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import write_result
from stapo_train.config import TrainConfig, load_config
from stapo_train.cost.estimate import generation_seconds, iteration_seconds, passes
from stapo_train.cost.memory import DOUBT, USABLE, Memory, fits
from stapo_train.cost.shapes import GPUS, Recipe, Setup, Shape, read_shape
from stapo_train.cost.training import training_memory
from stapo_train.jobs import Job, run_jobs
from stapo_train.reproduce.table import METHODS, run_folder, run_script, with_logs, write_results

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = ROOT / "train" / "configs" / "small"

HARDER = ("sum-3", "sum-4", "two-products", "remainder-1", "remainder-2", "story-3")
"""Kinds of problems on which the base is least often right."""
NUM_PROBLEMS = 4000

EVALUATION = {
    "scratch": {"suite": "tiny", "max-new-tokens": "96"},
    "base": {"tasks": "aime24,amc23,math500", "samples": "2", "max-new-tokens": "1024"},
}
NUM_SAMPLES = {"scratch": 3200 + 4 * (500 + 272 + 674), "base": 2 * (30 + 40 + 500)}

# Assumptions of the estimate, in seconds: what starts once per command, and what an iteration or a step takes besides
# arithmetic (waking vLLM and giving it the weights, grading, launching kernels).
START_S = 60.0
ITERATION_S = 3.0
PRETRAIN_STEP_S = 0.08


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of the whole run, from which the jobs and the estimate follow."""

    kind: str  # scratch | base
    base: Path
    out: Path
    train: tuple[str, ...]  # KEY=VALUE
    pretrain: tuple[str, ...]
    evaluation: dict[str, str]  # option -> value

    @property
    def config_file(self) -> Path:
        """The trainings' config: of the harder tiny levels, or of a real base model."""
        return CONFIGS / ("_harder.yaml" if self.kind == "scratch" else "_recipe.yaml")

    def overrides(self, method: str) -> list[str]:
        """Settings of one method's training on top of ``config_file``."""
        return [f"objective.name={method}", f"model={self.base}", f"out={self.out / method}", *self.train]

    def config(self, method: str) -> TrainConfig:
        """One method's training, read and checked."""
        return load_config(self.config_file, self.overrides(method))


def make_plan(base: Path | None, out: Path, pairs: Sequence[str]) -> Plan:
    """Sort the KEY=VALUE pairs by what they change."""
    kind = "scratch" if base is None else "base"
    evaluation = dict(EVALUATION[kind])
    train, pretrain = [], []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"'{pair}': expected KEY=VALUE, for example iterations=10 or eval.limit=5")
        if name.startswith("eval."):
            option = name.removeprefix("eval.")
            if option in ("tasks", "suite"):  # one of the two
                evaluation = {k: v for k, v in evaluation.items() if k not in ("tasks", "suite")}
            evaluation[option] = value
        elif name.startswith("pretrain."):
            if base is not None:
                raise UsageError(f"'{pair}': expected no making of a base model together with --base")
            pretrain.append(pair.removeprefix("pretrain."))
        else:
            train.append(pair)
    data = [] if any(pair.startswith("data.") for pair in train) else [f"data.path={_problems(kind, out)}"]
    return Plan(
        kind=kind,
        base=out / "base" if base is None else base,
        out=out,
        train=(*data, *train),
        pretrain=tuple(pretrain),
        evaluation=evaluation,
    )


def _problems(kind: str, out: Path) -> Path:
    if kind == "scratch":
        return out / "harder.jsonl"
    folder = os.environ.get("STAPO_BENCH_DATA")
    path = Path(folder or "data") / "train" / "dapo_math_17k.jsonl"
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file; expected DAPO-Math-17K as JSON lines under $STAPO_BENCH_DATA/train, or "
            "data.source=hub data.path=open-r1/DAPO-Math-17k-Processed data.hub_config=en "
            "'data.columns=[prompt, solution]'"
        )
    return path


def write_problems(path: Path) -> None:
    """The harder levels' training problems as JSON lines; the same for everyone."""
    from stapo_train.tiny.problems import training_problems

    problems = training_problems(0, NUM_PROBLEMS, HARDER)
    rows = [{"id": p.problem_id, "problem": p.question, "answer": p.gold.answer} for p in problems]
    write_result(path, "".join(json.dumps(row) + "\n" for row in rows))


# --- estimate ---------------------------------------------------------------------------------------------------------


def shape_of(plan: Plan) -> Shape:
    """Shape of the model to train, read from the checkpoint or from the config that makes it."""
    if plan.kind == "base":
        return read_shape(plan.base)
    from stapo_train.tiny import pretrain

    made = pretrain.load_config(CONFIGS / "base.yaml", [*plan.pretrain, f"out={plan.base}"])
    return Shape(
        layers=made.num_layers,
        hidden=made.hidden_size,
        intermediate=made.intermediate_size,
        heads=4,
        kv_heads=2,
        head_dim=32,
        vocab=made.vocab_size,
        tied=True,
    )


def recipe_of(config: TrainConfig) -> Recipe:
    """A config's recipe; the mean response is assumed to have half the maximum length."""
    return Recipe(
        prompts=config.rollout.prompts,
        group_size=config.rollout.group_size,
        mini_batches=config.update.mini_batches,
        max_prompt=0,
        max_response=config.rollout.max_new_tokens,
        mean_response=config.rollout.max_new_tokens // 2,
    )


def check_memory(shape: Shape, setup: Setup, config: TrainConfig) -> Memory:
    """Memory that one GPU needs; refused with one line where the GPU is too small."""
    memory = training_memory(config, shape, setup)
    if not fits(memory, setup.gpu.memory_gib):
        usable = USABLE * setup.gpu.memory_gib
        raise UsageError(
            f"{setup.gpu.name}: expected at most {usable:.0f} GiB, got {DOUBT * memory.most:.0f} GiB ("
            f"{memory.while_updating:.0f} in updates, {memory.while_sampling:.0f} in rollouts); lower "
            "rollout.gpu_memory or update.micro_batch_tokens, take a smaller --base, or use --scale paper"
        )
    return memory


def training_seconds(config: TrainConfig, shape: Shape, setup: Setup) -> float:
    """Wall seconds of one training, by the estimate."""
    seconds = iteration_seconds(shape, setup, recipe_of(config), passes(config.objective["name"])).total
    return START_S + config.iterations * (ITERATION_S + seconds)


def evaluation_seconds(plan: Plan, shape: Shape, setup: Setup) -> float:
    """Wall seconds of one evaluation, by the estimate."""
    limit = int(plan.evaluation["max-new-tokens"])
    recipe = Recipe(max_response=limit, mean_response=limit // 2)
    return START_S + generation_seconds(shape, setup, recipe, NUM_SAMPLES[plan.kind], limit)


def check_environment(config: TrainConfig) -> None:
    """Refuse, before the base is made, an environment that could not train on it.

    Raises:
        StapoError: there is no vLLM for ``rollout.engine: vllm``, or a GPU that torch does not see.
    """
    default_device()
    if config.rollout.engine == "vllm" and find_spec("vllm") is None:
        raise StapoError(
            "rollout.engine vllm: expected vLLM in this environment, got none; scripts/gpu_environment.sh vllm makes "
            "one that has it (.venv-vllm), rollout.engine=transformers trains without it"
        )


# --- the run ----------------------------------------------------------------------------------------------------------


def jobs(plan: Plan, shape: Shape, setup: Setup) -> list[Job]:
    """Every command in order; weights are the estimated seconds."""
    found = []
    if plan.kind == "scratch":
        from stapo_train.tiny import pretrain

        arguments = [*plan.pretrain, f"out={plan.base}"]
        steps = pretrain.load_config(CONFIGS / "base.yaml", arguments).steps
        command = [
            sys.executable,
            "-m",
            "stapo_train.reproduce.pretrain_on_gpu",
            str(CONFIGS / "base.yaml"),
            *arguments,
        ]
        found.append(Job(name="pretrain base", command=command, weight=START_S + PRETRAIN_STEP_S * steps))
    for method in METHODS:
        command = ["stapo-train", str(plan.config_file), *plan.overrides(method), "--resume"]
        weight = training_seconds(plan.config(method), shape, setup)
        found.append(Job(name=f"train {method}", command=command, weight=weight))
    for model in ("base", *METHODS):
        checkpoint = plan.base if model == "base" else plan.out / model / "checkpoints" / "final"
        for regime in REGIMES:
            command = ["stapo-bench", "eval", "--ckpt", str(checkpoint), "--decoding", regime]
            command += [part for name, value in plan.evaluation.items() for part in (f"--{name}", value)]
            command += ["--out", str(run_folder(plan.out, model, regime))]
            weight = evaluation_seconds(plan, shape, setup)
            found.append(Job(name=f"eval {model} {regime}", command=command, weight=weight))
    return with_logs(found, plan.out)


def describe(found: Sequence[Job], shape: Shape, memory: Memory, setup: Setup) -> str:
    """Size, memory and time before anything runs, in two lines."""
    hours = sum(job.weight for job in found) / 3600
    lines = [
        f"model: {shape.parameters / 1e6:,.0f} M parameters; {setup.gpu.name}: about {memory.while_updating:.0f} GiB "
        f"in updates, {memory.while_sampling:.0f} GiB in rollouts, of {setup.gpu.memory_gib:g}",
        f"about {60 * hours:.0f} minutes by stapo_train.cost, not measured"
        + ("" if hours < 1 else ": more than the hour of this scale; iterations=N makes it shorter"),
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse, estimate, run, write the table and compare STAPO with JustRL."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="checkpoint folder to train on; default: one is made from nothing")
    parser.add_argument("--out", type=Path, default=Path("runs/small"), help="folder of everything (%(default)s)")
    parser.add_argument("--gpu", choices=list(GPUS), default="h100", help="for the estimate (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="estimate and print the commands")
    parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE")
    asked = parser.parse_args()

    plan = make_plan(asked.base, asked.out, asked.pairs)
    shape = shape_of(plan)
    config = plan.config("stapo")
    setup = Setup(gpu=GPUS[asked.gpu], nodes=1, gpus_per_node=1, rollout_share=config.rollout.gpu_memory)
    memory = check_memory(shape, setup, config)
    found = jobs(plan, shape, setup)
    print(describe(found, shape, memory, setup))
    if asked.dry_run:
        print("\n".join(shlex.join(job.command) for job in found))
        return
    check_environment(config)
    if plan.kind == "scratch":
        write_problems(_problems("scratch", plan.out))
    run_jobs(found, lanes=1)
    write_results(plan.out)
    compared = [str(run_folder(plan.out, method, "justrl")) for method in ("justrl", "stapo")]
    subprocess.run(["stapo-bench", "compare", *compared], check=True)


if __name__ == "__main__":
    run_script(main)
