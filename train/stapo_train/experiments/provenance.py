"""Where a page's numbers come from: code, versions, seeds and CPU time, for the page and for ``manifest.json``."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stapo_bench.runs import Manifest, load_manifest
from stapo_bench.tasks import read_foreign_object
from stapo_train.experiments.archive import TRAININGS
from stapo_train.experiments.costs import read_costs
from stapo_train.experiments.findings import Findings
from stapo_train.experiments.steps import CPU_SECONDS, plan
from stapo_train.objectives import REGISTRY


def provenance(findings: Findings, command: str) -> dict[str, Any]:
    """The manifest of a page.

    ``code``: per commit, how many commands were started under it and whether files differed; None: not recorded.
    ``evaluations``: the manifest of one run of each way of decoding; the others differ in seed and weights (runs.csv).
    ``cpu_s``: of all the experiment's commands, finished or not, including those that other experiments share.
    """
    experiment = findings.experiment
    steps = plan(experiment, findings.out)
    rows = [row for row in read_costs(findings.out) if row["step"] in steps]
    manifests = [load_manifest(evaluation.folder) for evaluation in findings.evaluations]
    first = {evaluation.decoding: evaluation.folder for evaluation in reversed(findings.evaluations)}
    code = Counter((row.get("commit"), row.get("dirty")) for row in rows)
    return {
        "experiment": experiment.name,
        "question": experiment.question,
        "command": command,
        "seeds": {"asked": list(experiment.used_seeds), "finished": list(findings.seeds)},
        "overrides": list(experiment.overrides),
        "evaluation": experiment.options,
        **({"tasks": list(experiment.tasks)} if experiment.tasks else {}),
        "graders": sorted({score.grader for score in findings.sources.scores}),
        "variants": {name: list(own) for name, own in experiment.variants.items()},
        "definitions": definitions(experiment.variants),
        "not_run": [name for name in experiment.variants if name not in findings.variants],
        "code": [
            {"commit": commit, "dirty": dirty, "starts": count}
            for (commit, dirty), count in sorted(code.items(), key=str)
        ],
        "evaluated_by": sorted({str(m.about.commit) for m in manifests}),
        "versions": sorted({row["versions"] for row in rows if "versions" in row} or {_versions(m) for m in manifests}),
        "devices": sorted({str(m.about.device) for m in manifests}),
        "cpu_s": {kind: round(sum(r["cpu_s"] for r in rows if r["kind"] == kind), 1) for kind in CPU_SECONDS},
        "commands": {kind: len({r["step"] for r in rows if r["kind"] == kind}) for kind in CPU_SECONDS},
        "evaluations": {name: read_foreign_object(first[name] / "manifest.json") for name in experiment.decodings},
    }


def objective_names(variants: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The objective of each variant that is trained, by variant, from its settings."""
    stated = {variant: dict(pair.split("=", 1) for pair in own) for variant, own in variants.items()}
    return {variant: pairs["objective.name"] for variant, pairs in stated.items() if "objective.name" in pairs}


def definitions(variants: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Which definition of its objective each variant was trained with: the present one, as a run's name says it too."""
    return {variant: REGISTRY[name].definition for variant, name in objective_names(variants).items()}


def outdated(about: Mapping[str, Any]) -> str:
    """Which variants of a page were made with a former definition of their objective, in words; empty: none.

    ``about``: a page's ``manifest.json``. One without ``definitions`` is older than all second definitions.
    """
    then, now = about.get("definitions", {}), definitions(about["variants"])
    old = [variant for variant, number in now.items() if then.get(variant, 1) < number]
    if not old:
        return ""
    names = objective_names(about["variants"])
    told = "; ".join(f"{variant} {REGISTRY[names[variant]].former}" for variant in old)
    return f"**Made with a former definition, to be made again ({_cost_of(about, len(old))}): {told}.**"


def cost(about: Mapping[str, Any]) -> str:
    """CPU-hours of all of a page's runs, by what they cost."""
    return f"about {sum(about['cpu_s'].values()) / 3600:.1f} CPU-hours"


def _cost_of(about: Mapping[str, Any], variants: int) -> str:
    """CPU-hours of a number of variants, by what those of the page cost; pairs need the runs of all others, too."""
    hours = sum(about["cpu_s"].values()) / 3600
    share = variants / max(len(objective_names(about["variants"])), 1)
    return f"about {hours * share:.1f} CPU-hours beside the others' runs, {hours:.1f} without them"


def _versions(manifest: Manifest) -> str:
    found = {**(manifest.identity.versions or {}), **manifest.identity.engine}
    return ", ".join(f"{name} {found[name]}" for name in ("stapo_bench", "torch", "transformers") if name in found)


def how(findings: Findings, about: dict[str, Any]) -> Iterator[str]:
    """The last part of a page: how its numbers were made."""
    yield "## How it was made"
    yield ""
    yield f"- Command: `{about['command']}`. Settings and curves of every training: `{TRAININGS}`."
    spent = {kind: seconds for kind, seconds in about["cpu_s"].items() if seconds}
    parts = ", ".join(f"{about['commands'][kind]} × {kind} {seconds:,.0f}" for kind, seconds in spent.items())
    yield f"- Cost: {sum(spent.values()):,.0f} CPU-seconds ({parts}), what is shared with other experiments included."
    yield "- Code: " + "; ".join(_commit(row) for row in about["code"]) + ". Versions: " + "; ".join(about["versions"])
    manifests = ", with that of one run of each way of decoding" if findings.experiment.decodings else ""
    yield f"  (`manifest.json`{manifests})."
    seeds, kind = ", ".join(map(str, about["seeds"]["finished"])), findings.experiment.seeds
    yield f"- Seeds ({kind}): {seeds}. A seed decides the order of the problems and every draw, and"
    yield "  is the same for all variants; evaluations draw with it, too."
    several = about["commands"]["pretrain"] > 1
    alike = "of each kind (`pretrain.` below, on top of `train/configs/tiny/base.yaml`)" if several else "for all"
    yield f"- One base model {alike}: intervals say nothing about another one, nor about larger models."
    if findings.experiment.decodings:
        limits = ", ".join(f"{name} {value}" for name, value in about["evaluation"].items())
        alone = f" on {', '.join(about['tasks'])} alone" if "tasks" in about else ""
        yield f"- Evaluated with {limits}{alone}; graded by {', '.join(about['graders'])}."
    common = ", ".join(about["overrides"]) or "none"
    yield f"- Settings on top of `train/configs/tiny/_recipe.yaml`, of all trainings: {common}; of a variant:"
    for name, own in about["variants"].items():
        yield f"  - {name}: {', '.join(own) or 'the base model, untrained'}"


def _commit(row: dict[str, Any]) -> str:
    if row["commit"] is None:
        return f"commit not recorded ({row['starts']} starts)"
    return f"{row['commit'][:12]} ({row['starts']} starts{', with uncommitted changes' if row['dirty'] else ''})"
