"""False alarms of a gate over fifty looks: ``python -m bench.gate`` prints the table of docs/gate.md.

The models that are looked at have the baseline's own chances on every problem, so that each "worse" is false. ``new``:
a new model at each look, against one baseline. ``grows``: one model that gets as many samples more at each look.
"""

import sys

import numpy as np

from stapo_bench.statistics import ERROR_NAMES, LEVEL, paired_difference

LOOKS = 50
SIZES = ((30, 8), (30, 1), (100, 4), (200, 1))


def alarms(kind: str, num_problems: int, k: int, seed: int) -> list[bool]:
    """Whether any of fifty looks says worse: by error, with ``--looks 50``, then with ``--looks 1``."""
    rng = np.random.default_rng([seed, num_problems, k])
    chance = rng.beta(0.5, 0.5, size=(num_problems, 1))
    baseline = (rng.random((num_problems, k)) < chance).astype(np.float64)
    drawn = (rng.random((num_problems, LOOKS * k)) < chance).astype(np.float64)
    found = np.zeros(2 * len(ERROR_NAMES), dtype=np.bool_)
    for look in range(LOOKS):
        model = drawn[:, (look * k if kind == "new" else 0) : (look + 1) * k]
        for i, error in enumerate(ERROR_NAMES):
            difference = paired_difference(baseline, model, error)
            found[i] |= difference.interval(1.0 - LEVEL / LOOKS).high < 0.0
            found[i + 2] |= difference.interval().high < 0.0
    return [bool(alarm) for alarm in found]


def share(kind: str, num_problems: int, k: int, series: int) -> list[float]:
    """The share of series of looks with a false alarm, in the order of ``alarms``."""
    return [float(x) for x in np.mean([alarms(kind, num_problems, k, seed) for seed in range(series)], axis=0)]


def main() -> None:
    """Print the table; the argument is the number of series."""
    series = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(
        "| looks at | problems × samples | these problems | problems like these | each by itself: these | like these |"
    )
    print("|---|---|---|---|---|---|")
    for kind, words in (("new", "a new model each time"), ("grows", "a run that grows")):
        for num_problems, k in SIZES:
            cells = [f"{100 * x:.1f}" for x in share(kind, num_problems, k, series)]
            print(f"| {words} | {num_problems} × {k} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
