"""False alarms and samples of ``stapo-bench follow``: ``python -m bench.follow`` prints docs/how-to/follow.md's table.

A training has 20 checkpoints, 30 problems and 32 samples of each; rates of the base from Beta(0.4, 0.6), and gains that
rise evenly to the one named. Beside it a fixed design that draws all samples of every checkpoint and looks once, at the
same level for each.
"""

from dataclasses import dataclass

import numpy as np

from stapo_bench.statistics import paired_difference
from stapo_bench.statistics.checkpoint_looks import level_of, look_at

CHECKPOINTS, PROBLEMS, SAMPLES, LOOK = 20, 30, 32, 4
TRAININGS = {0.0: 1000, 0.05: 100, 0.1: 100, 0.2: 100, 0.4: 100}
"""By gain of the last checkpoint, a fraction."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training as both designs see it."""

    used: float  # samples, as a share of all
    shown: int | None  # the first checkpoint that is told from the base; None: none is
    fixed: int | None  # likewise with all samples


def draw(rng: np.random.Generator, rates: np.ndarray) -> np.ndarray:
    """[PROBLEMS, SAMPLES] of 0 and 1."""
    return (rng.random((len(rates), SAMPLES)) < rates[:, None]).astype(float)


def train(rng: np.random.Generator, gain: float) -> Training:
    """One training whose last checkpoint gains that much on average."""
    rates = rng.beta(0.4, 0.6, PROBLEMS)
    base, used, shown, fixed = draw(rng, rates), 0, [], []
    for number in range(1, CHECKPOINTS + 1):
        share = min(1.0, gain * number / CHECKPOINTS / (1.0 - rates.mean()))
        correct = draw(rng, rates + (1.0 - rates) * share)
        looks = (look_at([correct[:, :k]], [base], [SAMPLES], number) for k in range(LOOK, SAMPLES + 1, LOOK))
        look = next(look for look in looks if look.stop)
        used += look.rounds
        shown += [number] * (look.state in ("better", "worse"))
        once = paired_difference(base, correct, "these problems").interval(1.0 - level_of(number))
        fixed += [number] * (once.low > 0 or once.high < 0)
    return Training(used=used / CHECKPOINTS / SAMPLES, shown=min(shown, default=None), fixed=min(fixed, default=None))


def main() -> None:
    """Print the table."""
    print("| gain of the last | trainings | told from the base | at checkpoint | samples | fixed: told | at |")
    print("|---|---|---|---|---|---|---|")
    for gain, count in TRAININGS.items():
        rng = np.random.default_rng(round(1000 * gain))
        found = [train(rng, gain) for _ in range(count)]
        cells = [f"{100 * gain:g} points", str(count)]
        for name in ("shown", "fixed"):
            at = [number for one in found if (number := getattr(one, name)) is not None]
            cells += [f"{100 * len(at) / count:.1f} %", f"{np.mean(at):.1f}" if at else "–"]
            cells += [f"{100 * np.mean([one.used for one in found]):.0f} %"] if name == "shown" else []
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
