"""The pages: every link leads to something, and results stay a folder that a reader can look through."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    page
    for folder in (".", "results", "train", "tasks", "docs", "stapo_bench")
    for page in ((ROOT / folder).glob("*.md") if folder == "." else (ROOT / folder).rglob("*.md"))
]
ARCHIVE = ROOT / "results" / "experiments"


def test_every_link_leads_to_a_file():
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert broken == []
    assert len(PAGES) > 15


def test_every_picture_of_the_readme_is_there_in_light_and_in_dark():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for light in re.findall(r'<img src="([^"]+)"', text):
        dark = light.replace(".png", "-dark.png")
        source = f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}"><img src="{light}"'
        assert source in text and (ROOT / light).is_file() and (ROOT / dark).is_file()
    assert "<img " in text


def test_pictures_of_pages_are_small():
    sizes = {picture.name: picture.stat().st_size for picture in (ROOT / "docs" / "screenshots").iterdir()}
    assert {name: size for name, size in sizes.items() if size > 100_000} == {}


MADE_UP = {"stapo_train/objectives/positive_only.py"}  # the file that train/README.md shows how to add


def test_every_file_of_ours_that_a_page_names_is_there():
    named = r"`((?:stapo_bench|stapo_train|train|scripts|tasks|tests|results|requirements|docs)/[\w./-]+\.\w+)`"
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        for name in re.findall(named, page.read_text(encoding="utf-8"))
        if name not in MADE_UP and not any((base / name).exists() for base in (ROOT, ROOT / "train"))
    ]
    assert missing == []


def test_results_are_at_most_150_files_and_an_experiment_keeps_its_curves_in_one():
    assert sum(path.is_file() for path in (ROOT / "results").rglob("*")) <= 150
    for page in ARCHIVE.glob("*/page.md"):
        assert (page.parent / "trainings.tar.gz").is_file(), page
        assert "`trainings.tar.gz`" in page.read_text(encoding="utf-8"), page
