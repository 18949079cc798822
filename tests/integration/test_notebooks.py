"""The notebooks run as a reader would run them, and show today what they show in the repository.

Run by ``scripts/integration.sh site``, in the environment of the site, which has a kernel.
"""

import json
import random
import re
from collections import Counter

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: scripts/integration.sh runs this")
pytest.importorskip("ipykernel", reason="ipykernel is not installed: scripts/integration.sh runs this")
from notebooks_that_run import NOTEBOOKS, ROOT, run_notebook

AGAIN = "run .venv-site/bin/python tests/notebooks_that_run.py, and look at what changed"


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


PROGRESS = re.compile(
    r"[^\r\n]* · ETA [^\r\n]*[\r\n]*"
)  # shown where a command takes a second, by how busy a machine is


def outputs(notebook):
    """What each cell shows, by kind, without progress."""
    shown = [
        {
            kind: PROGRESS.sub("", "".join(text))
            for kind, text in {**one.get("data", {}), "stream": one.get("text", "")}.items()
        }
        for cell in notebook["cells"]
        for one in cell.get("outputs", [])
    ]
    return [{kind: text for kind, text in one.items() if text} for one in shown]


def test_a_notebook_shows_what_it_shows_in_the_repository(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert len(outputs(stored)) >= 4
    assert outputs(run_notebook(path)) == outputs(stored), AGAIN


def stored_text(name):
    notebook = json.loads((ROOT / "docs" / "notebooks" / name).read_text(encoding="utf-8"))
    return "\n".join(
        text for one in outputs(notebook) for kind, text in one.items() if kind in ("stream", "text/plain")
    )


def test_the_comparison_is_of_the_answers_that_it_makes():
    def share_right(skill, seed):
        rng = random.Random(seed)
        return sum(rng.random() < skill - problem / 50 for problem in range(40) for _ in range(4)) / 160

    before, after = share_right(0.7, 1), share_right(0.9, 2)
    assert (before, after) == (0.3, 0.50625)
    shown = stored_text("compare.ipynb")
    assert f"| all items | {100 * before:.2f} | {100 * after:.2f} | +{100 * (after - before):.1f} |" in shown
    assert shown.count(f"after is better than before: +{100 * (after - before):.1f} points [+11.5, +29.7]") == 2
    assert "these problems: +0.206 [+0.110, +0.302], better" in shown  # 0.50625 - 0.3


def test_the_run_is_of_the_answers_that_it_makes():
    rng, errors, rights = random.Random(7), Counter(), []
    for problem in range(12):
        rng.randrange(11, 99), rng.randrange(11, 99)
        drawn = []
        for _ in range(4):
            error = rng.choice([0, 0, 0, 0, -10, 1] if problem < 6 else [0, 0, -10, 1, 100])
            drawn.append(error if rng.random() < 0.9 else None)
        errors.update(drawn)
        rights.append(drawn.count(0))
    assert errors == {0: 21, -10: 14, 1: 8, 100: 3, None: 2}
    shown = stored_text("inside-a-run.ipynb")
    assert f"avg@4 {21 / 48:.3f}\n" in shown
    # pass@4 of four samples: the share of problems with a right one
    assert f"4: {sum(right > 0 for right in rights) / 12:.3f}}}" in shown
    assert [line.split() for line in re.findall(r"^ *-?\d+ +\d+$", shown, re.MULTILINE)] == [
        ["-10", "14"],
        ["1", "8"],
        ["100", "3"],
    ]
    assert re.search(r"NO_ANSWER +0 +2\n", shown)
