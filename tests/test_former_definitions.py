"""Results that were made before an objective was corrected say so, on their pages and in the list of all."""

import json
import shutil
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from stapo_train.config import load_config
from stapo_train.experiments.archive import TRAININGS
from stapo_train.experiments.notices import restate
from stapo_train.experiments.provenance import definitions, outdated
from stapo_train.objectives import BUILT_IN, REGISTRY

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(path.parent for path in (ROOT / "results" / "experiments").glob("*/manifest.json"))
SAID = "**Made with a former definition"


@pytest.mark.parametrize("folder", PAGES, ids=lambda p: p.name)
def test_each_page_says_which_of_its_variants_are_of_a_former_definition(folder):
    said = outdated(json.loads((folder / "manifest.json").read_text()))
    assert [p for p in (folder / "page.md").read_text().split("\n\n") if p.startswith(SAID)] == ([said] if said else [])
    assert (said in (folder.parent / "README.md").read_text()) if said else True


def test_a_page_made_again_says_no_more_of_it(tmp_path):
    folder = tmp_path / "main"
    folder.mkdir()
    for name in ("page.md", "manifest.json"):
        shutil.copy(ROOT / "results" / "experiments" / "main" / name, folder / name)
    about = json.loads((folder / "manifest.json").read_text())
    about.pop("definitions", None)
    (folder / "manifest.json").write_text(json.dumps(about))
    (said,) = (part for part in restate(folder) if part.startswith(SAID))
    assert said.startswith(f"{SAID}, to be made again (about 0.6 CPU-hours beside")
    before = (folder / "page.md").read_text()
    assert said in before and before.count(SAID) == 1
    (folder / "manifest.json").write_text(json.dumps({**about, "definitions": definitions(about["variants"])}))
    assert not any(part.startswith(SAID) for part in restate(folder))
    assert SAID not in (folder / "page.md").read_text()
    assert restate(tmp_path / "none") == []


def test_a_corrected_objective_is_another_run():
    config = load_config(ROOT / "train" / "configs" / "tiny" / "stapo.yaml", ["objective={name: lopti}"])
    before = config.training_digest()
    assert REGISTRY["lopti"].definition == 2
    try:
        REGISTRY["lopti"].definition = 1
        assert config.training_digest() != before
    finally:
        REGISTRY["lopti"].definition = 2


def test_whoever_has_a_second_definition_says_what_the_first_one_did():
    for name in BUILT_IN:
        assert (REGISTRY[name].definition > 1) == bool(REGISTRY[name].former), name


def test_a_training_on_two_pages_has_the_same_numbers_on_both():
    """Had an objective changed between the days on which two pages were made, their curves would differ."""
    machine = {"seconds", "memory", "crc32"}  # of a line: of the machine, and over such
    found = defaultdict(dict)
    for path in (ROOT / "results" / "experiments").glob(f"*/{TRAININGS}"):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.endswith("/metrics.jsonl"):
                    lines = archive.extractfile(member).read().splitlines()
                    found[member.name][path.parent.name] = [json.loads(line) for line in lines]
    objectives = set()
    for name, pages in found.items():
        first, *others = pages.values()
        for other in others:
            assert len(first) == len(other), name
            both = (first[0].keys() & other[0].keys()) - machine
            assert both >= {"reward", "entropy", "loss", "grad_norm", "num_tokens"}
            assert [{k: row[k] for k in both} for row in first] == [{k: row[k] for k in both} for row in other], name
            objectives.add(name.split("/")[1].rpartition("-s")[0])
    assert objectives == {"grpo", "20-entropy", "justrl", "stapo", "stapo-old"}  # those that two pages have
