"""The page of predictions: made from the cases alone, and written before any of their runs."""

from collections.abc import Iterator
from dataclasses import fields

from stapo_train.experiments.design import SEEDS
from stapo_train.experiments.mechanism.maps import MAP_CASES, MAP_SEEDS, MAPS, Map
from stapo_train.experiments.mechanism.policy import Setting
from stapo_train.experiments.mechanism.study import BASE, CASES, SETTINGS, Case

HEADING = f"""# What the mechanism predicts

Written before any of the runs; this repository's history was written anew since, with the results in the same commit,
so that the order cannot be looked up here. The derivation (docs/mechanism.md) says why; this says what would refute it.
Each case is measured with the seeds {", ".join(map(str, SEEDS["fresh"]))}, one number a seed. *As predicted*: the 95 %
interval over seeds lies on the predicted side of 0. *Refuted*: it lies on the other or, where no difference is
predicted, on either. Anything else is *not told from 0*, and no support.

Explored beforehand, on seeds 1 and 2 and at these or neighbouring settings: the cases so marked. They say that a result
repeats; the others are predictions proper. The exploration corrected two guesses: the upper clip of 0.28 alone did not
make entropy grow, and with large steps entropy fell more, not less, where most rollouts succeed.

Numbers are ln(end / start) of a run, or the second run's less the first's: of `entropy` (nats, mean over contexts), of
the mass of tokens that were in the tail at the start (A1 to A4), or of the useful part of it (U2). U3: the reward's
mean over the last ten iterations. H2: ln(harmful mass / tail mass).
"""

MAPS_HEADING = f"""## Phase diagrams

Written when the runs of the cases above were known, before any run of a map. Seeds: {", ".join(map(str, MAP_SEEDS))}.
From the derivation:

- L. With one update per iteration the ratio is 1 and no clip acts: GRPO and JustRL are one method here, and (2) is
  left, which raises entropy in contexts as confident as these, with the square of the rate. The clip acts where the
  rate times the root of the updates moves a rare token's logit by about 0.2: above a product of 300. A rate of 300 is
  too large for (2) to give a sign at one update.
- K. Both clips are equally far in ln rho where (1 + high)(1 - low) = 1. Entropy falls below that and grows well above;
  the noise of (2) and what was seen at 0.2 / 0.28, where it fell, leave the boundary's place between 1 and 1.4 open.
  K3 leaves out the two cells within 3 % of 1.
- R. Useful tokens are lifted at any tail mass. S2T at q 0.75 leaves a quarter of the rewards and all punishments: a
  tail of which the share u helps, with P the chance of success that one such token gives (0.95 here, from 0.5), gains
  mass only where u (1.25 P - 1) > 0.375 (1 - u). That is u > 0.66, a spurious share below 0.34, at any tail mass.
- G. Under Adam the number of signs counts. Of tokens with A not 0, for one that is negative there are p (1 - p^(G-1)) /
  ((1 - p)(1 - (1 - p)^(G-1))) positive: 1 in groups of 2 at any success rate p; at p 0.9, 2.4 in groups of 4 and 7.1
  in groups of 16; under S2T a quarter of that. Under SGD the sum of A is 0 in every group.

Numbers are means over the cells of ln(end / start), or the second cells' mean less the first's: of entropy; of the
tail's mass in R3, R4 and all of G. The runs of L have 160 updates each, however many an iteration has. *Explored*: a
case above had the same question, at one of the cells or near them.
"""


def predictions() -> str:
    """Markdown: the cases, and the settings that they name."""
    lines = [HEADING, "| | Prediction | runs | number | explored |", "|---|---|---|---|---|"]
    lines += [_row(case, " → ".join(f"`{name}`" for name in case.runs)) for case in CASES]
    lines += ["", *settings(), "", MAPS_HEADING, "| | Prediction | number | explored |", "|---|---|---|---|"]
    lines += [_row(case) for case in MAP_CASES]
    return "\n".join([*lines, "", *(line for each in MAPS for line in _map(each))]) + "\n"


def _row(case: Case, *more: str) -> str:
    sign = {-1: "below 0", 0: "not told from 0", 1: "above 0"}[case.sign]
    return f"| {' | '.join([case.code, case.says, *more, sign, 'yes' if case.seen else 'no'])} |"


def _map(each: Map) -> Iterator[str]:
    """A map's axes and panels in a list."""
    axes = (
        f"{words} {', '.join(f'{value:g}' for value in values)}"
        for words, values in ((each.x, each.xs), (each.y, each.ys))
    )
    yield f"- {each.code}: {' by '.join(axes)}"
    for name, setting in each.panels.items():
        yield f"  - {name}: {_own(setting) or 'as all'}"


def settings() -> Iterator[str]:
    """The list of settings, each by what it has of its own."""
    yield "## Settings"
    yield ""
    yield f"All: {', '.join(f'{f.name} {getattr(BASE, f.name)}' for f in fields(Setting) if f.name != 'constants')}."
    yield ""
    for name, setting in SETTINGS.items():
        yield f"- `{name}`: {_own(setting) or 'as above'}"


def _own(setting: Setting) -> str:
    """What the base has otherwise."""
    own = {f.name: getattr(setting, f.name) for f in fields(Setting)}
    return ", ".join(f"{key} {value}" for key, value in own.items() if value != getattr(BASE, key))
