"""Results that were made before an objective was corrected say so, on their pages and in the list of all."""

import json
import shutil
from pathlib import Path

import pytest

from stapo_train.config import load_config
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
