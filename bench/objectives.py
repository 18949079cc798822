"""Every objective beside the code of those who made it: losses and gradients on the same random tokens, in float64.

    python -m bench.objectives [CHECKOUTS]          # all of them, each in its environment, and the page

    python -m bench.objectives reference            # our slow references, in the core's environment
    python -m bench.objectives verl                 # verl's own functions, in its environment (.venv-verl)
    python -m bench.objectives trl                  # TRL's own loss, in its environment (.venv-trl)
    python -m bench.objectives authors CHECKOUTS    # the authors' functions, from checkouts named as their repositories
    python -m bench.objectives page                 # docs/objectives.md, from what was measured

Each writes its rows of results/objectives/differences.csv and leaves the others. What a
difference is: bench/objective_oracles.py.
"""

import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.objective_oracles import author_rows, reference_rows, trl_rows, verl_rows
from bench.objectives_page import ROOT, ROWS, read_rows, write_page
from stapo_train.objectives import BUILT_IN


def every_oracle(checkouts: Sequence[str]) -> None:
    """Each oracle by a command of its own, where its environment or the authors' checkouts are there; then the page."""
    pythons = {"reference": Path(sys.executable), **{o: ROOT / f".venv-{o}/bin/python" for o in ("verl", "trl")}}
    for oracle, python in pythons.items():
        if python.is_file():
            subprocess.run([python, "-m", "bench.objectives", oracle], check=True, cwd=ROOT)
        else:
            print(f"{oracle}: its rows stay as they are; scripts/integration.sh {oracle} makes the environment")
    if checkouts:
        subprocess.run([sys.executable, "-m", "bench.objectives", "authors", *checkouts], check=True, cwd=ROOT)
    else:
        print("authors: their rows stay as they are; name a folder with checkouts of their repositories")
    write_page()


def main(arguments: Sequence[str]) -> None:
    """Measure, and keep the other oracles' rows."""
    makers = {
        "verl": verl_rows,
        "trl": trl_rows,
        "reference": reference_rows,
        "authors": lambda: author_rows(Path(arguments[1])),
    }
    if arguments[:1] == ["page"]:
        write_page()
        return
    if not arguments or Path(arguments[0]).is_dir():
        every_oracle(arguments)
        return
    if arguments[0] not in makers:
        known = ", ".join(["page", *makers])
        sys.exit(f"error: expected {known} or a folder with checkouts, got {arguments[0]!r}")
    new = list(makers[arguments[0]]())
    kept = [row for row in read_rows() if (row.objective, row.oracle) not in {(r.objective, r.oracle) for r in new}]
    order = list(BUILT_IN)
    rows = sorted([*kept, *new], key=lambda row: (order.index(row.objective), row.oracle))
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    with ROWS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["objective", "oracle", "difference"])
        writer.writerows([row.objective, row.oracle, f"{row.difference:.1e}"] for row in rows)
    for row in new:
        print(f"{row.objective:22} {row.oracle:40} {row.difference:.1e}")


if __name__ == "__main__":
    main(sys.argv[1:])
