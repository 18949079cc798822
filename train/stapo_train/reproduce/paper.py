"""The paper's training of one model on a Ray cluster: four methods in verl, conversion, evaluation, table and headline.

    scripts/reproduce_table.sh --scale paper --model 1.7b|8b|14b [--nodes 8] [--gpus-per-node 8] [--gpu h20]
        [--tensor-parallel T] [--sequence-parallel S] [--base PATH] [--out DIR] [--dry-run] [KEY=VALUE ...]

It runs on the cluster's head node (scripts/launch/ has SLURM and plain-Ray files that start the cluster), in an
environment with verl and vLLM. Every stage is a script under DIR/launch; what is finished is not run again, so a job
that was killed is simply submitted again. KEY=VALUE changes the training configs (``iterations=500``), ``--verl
KEY=VALUE`` verl's settings beyond them (``--verl actor_rollout_ref.actor.fsdp_config.param_offload=True``).

``--dry-run`` writes the scripts, lets verl check its configurations, prints memory, hours and disk, and starts nothing;
it needs no GPU. Nothing is started either if the model does not fit.
"""

import argparse
import shlex
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_train.config import TrainConfig, load_config
from stapo_train.cost.estimate import (
    EVAL_MAX_TOKENS,
    EVAL_SAMPLES,
    checkpoint_bytes,
    folder_bytes,
    generation_seconds,
    iteration_seconds,
    passes,
    samples_bytes,
)
from stapo_train.cost.memory import cached_sequences, check_setup
from stapo_train.cost.shapes import GPUS, SHAPES, Recipe, Setup, Shape
from stapo_train.jobs import run_guarded
from stapo_train.reproduce.paper_stages import Stage, stages, write
from stapo_train.reproduce.paper_verl import (
    MAX_PROMPT,
    compose,
    kept_checkpoints,
    missing_packages,
    verl_overrides,
)
from stapo_train.reproduce.table import METHODS, run_script

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "paper"
TENSOR_PARALLEL = {"1.7b": 1, "8b": 1, "14b": 2}


def recipe_of(config: TrainConfig) -> Recipe:
    """A config's numbers; the mean lengths are assumptions of ``stapo_train.cost.estimate``."""
    return Recipe(
        prompts=config.rollout.prompts,
        group_size=config.rollout.group_size,
        mini_batches=config.update.mini_batches,
        max_prompt=MAX_PROMPT,
        max_response=config.rollout.max_new_tokens,
    )


def estimate(shape: Shape, setup: Setup, configs: dict[str, TrainConfig]) -> list[str]:
    """Memory per GPU, hours and disk, one line each; refuses what cannot work."""
    recipe = recipe_of(configs["stapo"])
    memory = check_setup(shape, setup, recipe)
    held = cached_sequences(shape, setup, recipe.mean_length)
    lines = [
        f"{setup.nodes} x {setup.gpus_per_node} {setup.gpu.name}, tensor parallel {setup.tensor_parallel}, sequence "
        f"parallel {setup.sequence_parallel}; {shape.parameters / 1e9:.2f} B parameters",
        f"memory per GPU: {memory.while_updating:.0f} GiB in updates (weights, optimizer and gradients "
        f"{memory.state + memory.gradients:.1f}, gathered {memory.gathered:.1f}, activations {memory.activations:.1f}, "
        f"logits {memory.logits:.1f}), {memory.while_sampling:.0f} GiB in rollouts (cache {memory.kv_cache:.0f}: "
        f"{held:.0f} sequences of {recipe.mean_length:,} tokens an engine), of {setup.gpu.memory_gib:g}",
    ]
    total = 0.0
    for method, config in configs.items():
        seconds = iteration_seconds(shape, setup, recipe_of(config), passes(method))
        hours = seconds.total * config.iterations / 3600
        total += hours
        lines.append(
            f"{method}: {config.iterations:,} iterations of {seconds.total:.0f} s (drawing {seconds.generation:.0f}, "
            f"passes {seconds.passes:.0f}): {hours:.0f} h"
        )
    runs = 2 * (len(configs) + 1)
    drawing = runs * generation_seconds(shape, setup, recipe, EVAL_SAMPLES, EVAL_MAX_TOKENS) / 3600
    lines.append(
        f"evaluation: {runs} runs of {EVAL_SAMPLES:,} samples, {drawing:.1f} h; in all {total + drawing:.0f} h, "
        f"{(total + drawing) * setup.world:,.0f} GPU-hours (stapo_train.cost: estimates, good to a factor of 1.7)"
    )
    # While verl writes a checkpoint the one before is still there.
    disk = (1 + sum(map(kept_checkpoints, configs.values()))) * checkpoint_bytes(shape)
    disk += len(configs) * folder_bytes(shape)
    samples = runs * samples_bytes(EVAL_SAMPLES, recipe.mean_response)
    lines.append(f"disk: {disk / 1e9:,.0f} GB of checkpoints, {samples / 1e9:.1f} GB of samples")
    return lines


def run(stage: Stage, script: Path) -> None:
    """Run a stage unless it is finished; its output goes to a log beside the script and to the terminal."""
    if stage.is_done():
        print(f"{stage.name}: finished", flush=True)
        return
    print(f"{stage.name}: started, {script}", flush=True)
    command = f"set -o pipefail; bash {shlex.quote(str(script))} 2>&1 | tee -a {shlex.quote(str(script))}.log"
    code = run_guarded(["bash", "-c", command])
    if code or not stage.is_done():
        raise StapoError(f"{stage.name} failed (exit {code}), all of it: {script}.log; put it right and start again")


def main() -> None:
    """Parse, estimate, write the stages and run those that are not finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(SHAPES), required=True)
    parser.add_argument("--nodes", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--gpus-per-node", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--gpu", choices=list(GPUS), default="h20", help="kind, for the estimate (%(default)s)")
    parser.add_argument("--tensor-parallel", type=int, help="GPUs of a vLLM engine (default: by size)")
    parser.add_argument("--sequence-parallel", type=int, default=1, help="GPUs that share a sequence (%(default)s)")
    parser.add_argument("--base", help="folder of the base model (default: the configs')")
    parser.add_argument("--out", type=Path, help="folder of everything (default: runs/paper/MODEL)")
    parser.add_argument(
        "--verl", action="append", default=[], metavar="KEY=VALUE", help="verl's own setting, after all others; repeat"
    )
    parser.add_argument("--dry-run", action="store_true", help="write, check and print; start nothing")
    parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE")
    asked = parser.parse_args()

    pairs = [*asked.pairs, *([f"model={asked.base}"] if asked.base else [])]
    configs = {method: load_config(CONFIGS / f"{asked.model}-{method}.yaml", pairs) for method in METHODS}
    setup = Setup(
        gpu=GPUS[asked.gpu],
        nodes=asked.nodes,
        gpus_per_node=asked.gpus_per_node,
        tensor_parallel=asked.tensor_parallel or TENSOR_PARALLEL[asked.model],
        sequence_parallel=asked.sequence_parallel,
        rollout_share=configs["stapo"].rollout.gpu_memory,
    )
    print("\n".join(estimate(SHAPES[asked.model], setup, configs)))

    base = Path(configs["stapo"].model)
    if not asked.dry_run and not base.is_dir():
        raise UsageError(f"{base}: no such folder; expected the base model there, or --base PATH")
    out = (asked.out or Path("runs/paper") / asked.model).resolve()  # on a file system that all nodes share
    overrides = {
        method: [*verl_overrides(config, setup, data=out / "train.parquet", out=out / method), *asked.verl]
        for method, config in configs.items()
    }
    missing = missing_packages()
    if missing and not asked.dry_run:
        raise StapoError(
            f"expected verl, vllm, flash-attn and matplotlib in this environment, got no {' and no '.join(missing)}; "
            "scripts/gpu_environment.sh verl makes one (docs/gpu.md)"
        )
    if "verl" in missing:
        print("not checked by verl: it is not installed in this environment")
    else:
        for found in overrides.values():
            compose(found)
        print(f"verl takes all {len(overrides)} configurations")
    plan = stages(out, configs, overrides, setup)
    scripts = write(plan, out, configs["stapo"])
    if asked.dry_run:
        print("\n\n".join(f"# {stage.name}: {s}\n{stage.script}" for stage, s in zip(plan, scripts, strict=True)))
        return
    for stage, script in zip(plan, scripts, strict=True):
        run(stage, script)


if __name__ == "__main__":
    run_script(main)
