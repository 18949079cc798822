"""What is published beside the code says the same as the code."""

import re
from pathlib import Path

import pytest
import yaml

import stapo_bench

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version_everywhere():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == stapo_bench.__version__
    assert f'version = "{stapo_bench.__version__}"' in read("pyproject.toml")
    versions = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == "Unreleased" and versions[1] == stapo_bench.__version__


def test_the_citation_names_the_licence_of_the_project():
    assert f'license = "{yaml.safe_load(read("CITATION.cff"))["license"]}"' in read("pyproject.toml")


@pytest.mark.parametrize("path", [path for path in TEMPLATES if path.name != "config.yml"], ids=lambda path: path.stem)
def test_every_template_asks_for_something(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"] and form["description"]
    assert any(field.get("validations", {}).get("required") for field in form["body"])
    assert all(field["type"] in ("textarea", "input") and field["attributes"]["label"] for field in form["body"])


@pytest.mark.parametrize("page", ["CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", read(page)):
        assert target.startswith("https://") or (ROOT / target).exists(), target
