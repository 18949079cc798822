"""What a page says of itself at its head, read from what lies beside it: a page made by earlier code says it, too."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stapo_bench.runs import read_bounded, write_atomically
from stapo_bench.tasks import read_foreign_object
from stapo_train.config import load_config
from stapo_train.experiments.design import CONFIGS, HERE, PRETRAIN, in_words, load_experiment
from stapo_train.experiments.provenance import cost, outdated
from stapo_train.objectives import REGISTRY

KINDS = (
    "**Made with a former definition",
    "**Intervals and verdicts of an earlier day",
    "**Two optimizer steps",
    "**Left out",
    "**Not run yet",
)
"""How notices begin, by which they are found again on a page."""


def notices(about: Mapping[str, Any], folder: Path) -> list[str]:
    """The notices of the page in ``folder``; ``about`` is its ``manifest.json``, of which an older one lacks keys."""
    found = (outdated(about), of_an_earlier_day(about, folder), two_steps(about), *by_design(about, folder))
    return [said for said in found if said]


def restate(folder: Path) -> list[str]:
    """Give a page that is there, and is not written now, the notices that it should have; return them.

    The runs of a page are not always at hand when an objective or the statistics change; its files are.
    """
    if not (folder / "manifest.json").is_file():
        return []
    lines = read_bounded(folder / "page.md").decode("utf-8").split("\n\n")
    said = notices(read_foreign_object(folder / "manifest.json"), folder)
    kept = [part for part in lines if not part.startswith(KINDS)]
    place = 3 if kept[2].startswith("**Partial") else 2  # below title and question
    now = [*kept[:place], *said, *kept[place:]]
    if now != lines:
        write_atomically(folder / "page.md", "\n\n".join(now))
    return said


def by_design(about: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """What the experiment leaves out of the authors' recipe, and which of its variants the page does not have yet."""
    if not (HERE / f"{folder.name}.yaml").is_file():
        return
    experiment = load_experiment(folder.name)
    if experiment.left_out:
        yield f"**Left out: {experiment.left_out.strip()}.**"
    if missing := [variant for variant in experiment.variants if variant not in about["variants"]]:
        told = ", with [predictions](predictions.md)" if (folder / "predictions.md").is_file() else ""
        yield f"**Not run yet{told}: {'; '.join(missing)}.**"


def two_steps(about: Mapping[str, Any]) -> str:
    """Which variants make more than one optimizer step on a mini-batch, and how many in all; empty: none."""
    found: dict[tuple[int, int], list[str]] = {}
    for variant, own in about["variants"].items():
        pairs = [pair for pair in (*_common(about), *own) if not pair.startswith(PRETRAIN)]
        if not own:
            continue
        config = load_config(CONFIGS / "_recipe.yaml", [*pairs, "model=unknown", "out=unknown"])
        phases = REGISTRY[config.objective["name"]].num_phases
        if phases > 1:
            once = config.iterations * config.update.mini_batches
            found.setdefault((phases * once, once), []).append(variant)
    told = "; ".join(f"{' and '.join(names)}, {all_} in place of {once}" for (all_, once), names in found.items())
    if not told:
        return ""
    return f"**Two optimizer steps on each mini-batch: {told}.** What they gain over others may be that of more steps."


# --- intervals of an earlier day --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A line of a page's ``table.csv``: two variants by what they were trained with, and what is said of them."""

    page: str
    decoding: str
    error: str
    variant: str
    minus: str
    said: str  # of ``variant``
    trained: tuple[str, ...]  # what the two were trained with and evaluated by, in an order of their own
    verdict: str  # of that order
    grader: int  # its version


def of_an_earlier_day(about: Mapping[str, Any], folder: Path) -> str:
    """That the page's intervals are older than the present ones, and which pages say otherwise; empty: they are not.

    A manifest without ``definitions`` is older than the present intervals; so is a page that says otherwise than one
    with a later grader.
    """
    if not about.get("graders"):
        return ""
    others = [other for own, other in disagreements(folder) if other.grader > own.grader]
    if "definitions" in about and not others:
        return ""
    told = [
        f"[{v.page}](../{v.page}/page.md) says of {v.variant} and {v.minus} at {in_words(v.decoding)}, on {v.error}: "
        f"{v.said}"
        for v in others
    ]
    instead = f" Of the same pair and seeds, by the present code: {'; '.join(told)}." if told else ""
    return (
        f"**Intervals and verdicts of an earlier day, graded by {', '.join(about['graders'])}, to be made again "
        f"({cost(about)}).** The present code gives wider intervals on seeds and problems like these, and fewer ties; "
        f"no samples are kept here from which they could be computed again.{instead}"
    )


def disagreements(folder: Path) -> list[tuple[Verdict, Verdict]]:
    """The page's verdicts, each beside another one of the same pair, seeds and error on another page."""
    own = {(v.decoding, v.error, v.trained): v for v in verdicts(folder)}
    found = []
    for other in sorted(folder.parent.glob("*/table.csv")):
        if other.parent.name != folder.name:
            for v in verdicts(other.parent):
                mine = own.get((v.decoding, v.error, v.trained))
                if mine is not None and mine.verdict != v.verdict:
                    found.append((mine, v))
    return found


def verdicts(folder: Path) -> Iterator[Verdict]:
    """The comparisons in a page's ``table.csv``."""
    if not ((folder / "table.csv").is_file() and (folder / "manifest.json").is_file()):
        return
    about = read_foreign_object(folder / "manifest.json")
    for row in csv.DictReader(io.StringIO(read_bounded(folder / "table.csv").decode("utf-8"))):
        if row["minus"]:
            pair = [_trained(about, row[side]) for side in ("variant", "minus")]
            turned = {"better": "worse", "worse": "better"} if pair != sorted(pair) else {}
            yield Verdict(
                page=folder.name,
                decoding=row["decoding"],
                error=row["error"],
                variant=row["variant"],
                minus=row["minus"],
                said=row["verdict"],
                trained=tuple(sorted(pair)),
                verdict=turned.get(row["verdict"], row["verdict"]),
                grader=max(int(grader.rpartition("-")[2]) for grader in about["graders"]),
            )


def _trained(about: Mapping[str, Any], variant: str) -> str:
    """All that decides a variant's numbers, in words: settings, the last of each name, seeds, and the evaluation's."""
    own: Sequence[str] = about["variants"][variant]
    settings = dict(pair.split("=", 1) for pair in (*_common(about), *own))
    kind = settings if own else {name: value for name, value in settings.items() if name.startswith(PRETRAIN)}
    evaluated = (sorted(about["evaluation"].items()), about.get("tasks"))
    return str((sorted(kind.items()), about["seeds"]["finished"], evaluated))


def _common(about: Mapping[str, Any]) -> list[str]:
    """The settings of all trainings; older manifests have those of the base model by themselves."""
    stated = about["overrides"]
    if isinstance(stated, list):
        return stated
    return [*stated["train"], *(f"{PRETRAIN}{pair}" for pair in stated["pretrain"])]
