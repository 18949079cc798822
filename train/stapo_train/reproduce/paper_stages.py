"""The stages of a paper-scale reproduction as shell scripts, each with a file that marks it as finished.

data -> per method: train in verl, convert to a Hugging Face folder -> per checkpoint and regime: evaluate -> table
-> the curves of training, from what verl logs beside its checkpoints
"""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from stapo_bench.engines import REGIMES
from stapo_bench.runs import folder_label, write_result
from stapo_train.config import TrainConfig
from stapo_train.cost.shapes import Setup
from stapo_train.objectives import for_run
from stapo_train.reproduce.paper_verl import MODULES, environment
from stapo_train.reproduce.table import run_folder

CURVES = ("entropy", "reward", "length", "masked")
"""The paper's curves over training, by name of the figure."""

ROOT = Path(__file__).resolve().parents[3]
CONFIG_FILE = "launch/config.yaml"
"""A method's training config with all its defaults, whose problems are everyone's."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of the reproduction."""

    name: str
    script: str  # bash, run in the project's root
    is_done: Callable[[], bool]


def stages(
    out: Path,
    configs: Mapping[str, TrainConfig],
    overrides: Mapping[str, Sequence[str]],
    setup: Setup,
) -> list[Stage]:
    """All stages in order.

    Args:
        out: folder of everything, seen by all nodes.
        configs: by method.
        overrides: verl's, by method.
        setup: the GPUs.
    """
    parquet = out / "train.parquet"
    plan = [
        Stage(
            name="data",
            script=_join("python", "-m", "stapo_train.integrations.verl_data", out / CONFIG_FILE, parquet),
            is_done=parquet.is_file,
        )
    ]
    for method, config in configs.items():
        plan += [_train(out / method, config, overrides[method]), _convert(out / method, config)]
    base = Path(next(iter(configs.values())).model)
    for model in ("base", *configs):
        checkpoint = base if model == "base" else out / model / "hf"
        plan += [_evaluate(checkpoint, regime, run_folder(out, model, regime), setup) for regime in REGIMES]
    return [*plan, _table(out, ("base", *configs)), _figures(out, configs)]


def write(plan: Sequence[Stage], out: Path, config: TrainConfig) -> list[Path]:
    """The stages as numbered scripts in ``out/launch``, and ``CONFIG_FILE``; returns the scripts' paths in order."""
    folder = out / "launch"
    write_result(out / CONFIG_FILE, yaml.safe_dump(config.nested(), sort_keys=False))
    paths = []
    for number, stage in enumerate(plan):
        path = folder / f"{number:02d}-{stage.name.replace(' ', '-')}.sh"
        lines = ["#!/usr/bin/env bash", "set -euo pipefail", f"cd {shlex.quote(str(ROOT))}", stage.script]
        write_result(path, "\n".join(lines) + "\n")
        paths.append(path)
    return paths


def _join(*words: object) -> str:
    return shlex.join(map(str, words))


def _broken(*lines: Sequence[object]) -> str:
    """One command over several lines."""
    return " \\\n    ".join(_join(*words) for words in lines)


def _train(folder: Path, config: TrainConfig, overrides: Sequence[str]) -> Stage:
    mark = folder / "verl" / "latest_checkpointed_iteration.txt"
    seen = environment(config)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in seen.items() if name != MODULES]
    # Modules that a user has verl load come before ours.
    exports.append(f'export {MODULES}="${{{MODULES}:+${MODULES},}}{seen[MODULES]}"')
    # Without an address Ray would start a cluster of this node alone.
    own = f"hydra.run.dir={folder / 'hydra'}"  # else a folder of its own where it is started
    command = _broken(("python", "-m", "verl.trainer.main_ppo"), *((pair,) for pair in (*overrides, own)))
    return Stage(
        name=f"train {folder.name}",
        script="\n".join([*exports, 'export RAY_ADDRESS="${RAY_ADDRESS:-auto}"', command]),
        is_done=lambda: mark.is_file() and int(mark.read_text(encoding="utf-8")) >= config.iterations,
    )


def _convert(folder: Path, config: TrainConfig) -> Stage:
    actor = folder / "verl" / f"global_step_{config.iterations}" / "actor"
    merged = folder / "hf"
    objective = for_run(config.objective, seed=config.seed, max_new_tokens=config.rollout.max_new_tokens)
    facts = {"method": objective.label, "base": folder_label(Path(config.model)), "step": config.iterations}
    merge = _join(
        *("python", "-m", "verl.model_merger", "merge", "--backend", "fsdp"),
        *("--local_dir", actor, "--target_dir", merged, "--use_cpu_initialization"),
    )
    # stapo.json comes last: it labels the table's rows and marks the folder as complete.
    return Stage(
        name=f"convert {folder.name}",
        script=f"{merge}\necho {shlex.quote(json.dumps(facts))} > {shlex.quote(str(merged / 'stapo.json'))}",
        is_done=(merged / "stapo.json").is_file,
    )


def _evaluate(checkpoint: Path, regime: str, run: Path, setup: Setup) -> Stage:
    engines, local = (gpus // setup.tensor_parallel for gpus in (setup.world, setup.gpus_per_node))
    return Stage(
        name=f"eval {run.name}",
        script=_join("scripts/launch/evaluate.sh", checkpoint, regime, run, engines, setup.tensor_parallel, local),
        is_done=(run / "finished").is_file,
    )


def _table(out: Path, models: Sequence[str]) -> Stage:
    runs = [run_folder(out, model, regime) for model in models for regime in REGIMES]
    results = out / "results"
    lines = [
        _join("mkdir", "-p", results),
        *(
            f"{_join('stapo-bench', 'table', *runs, '--published', '--format', kind)} > {results / f'table.{kind}'}"
            for kind in ("csv", "json", "md")
        ),
        _join("cat", results / "table.md"),
        *(
            _join("stapo-bench", "compare", run_folder(out, "justrl", regime), run_folder(out, "stapo", regime))
            for regime in REGIMES
        ),
        _join("touch", results / "finished"),
    ]
    return Stage(name="table", script="\n".join(lines), is_done=(results / "finished").is_file)


def _figures(out: Path, methods: Iterable[str]) -> Stage:
    results = out / "results"
    logs = [word for method in methods for word in ("--train", out / method / "verl")]
    files = {name: results / f"{name}.pdf" for name in CURVES}
    lines = [_join("stapo-bench", "plot", name, *logs, "-o", file) for name, file in files.items()]
    return Stage(
        name="figures", script="\n".join(lines), is_done=lambda: all(file.is_file() for file in files.values())
    )
