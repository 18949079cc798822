"""What is published beside the code says the same as the code."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
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
    assert re.findall(r"^version = (.+)$", read("pyproject.toml"), re.MULTILINE) == []  # the package has the code's own
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


def test_the_classifiers_exist_and_name_the_versions_of_python_that_the_workflow_tests():
    trove = pytest.importorskip("trove_classifiers")  # hatchling brings it
    named = re.findall(r'^    "([\w-]+(?: [\w-]+)* :: .+?)",', read("pyproject.toml"), re.MULTILINE)
    assert len(named) >= 9 and set(named) <= trove.classifiers
    versions = [name.rsplit(" ", 1)[1] for name in named if name.startswith("Programming Language :: Python :: 3.")]
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    assert versions == jobs["tests"]["strategy"]["matrix"]["python"]


def test_the_public_workflow_runs_every_part_of_ci():
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    commands = [step["run"].split(" ${{")[0] for job in jobs.values() for step in job["steps"] if "run" in step]
    # A part that gives way has "nice" before it, one that runs beside the next has "& pid" behind it.
    lines = [line.removeprefix("nice ") for line in read(".ci/run").splitlines() if re.match("(nice )?scripts/", line)]
    parts = [line.split(" & ")[0] for line in lines]
    assert sorted(commands) == sorted(parts)
    default = re.search(r"\$\{@:-([\w -]+)\}", read("scripts/integration.sh"))
    assert default and jobs["integration"]["strategy"]["matrix"]["part"] == default[1].split()


@pytest.mark.parametrize("tag", ["", ".1"], ids=["the version's", "another"])
def test_a_release_is_refused_whose_tag_names_another_version(tag):
    steps = yaml.safe_load(read(".github/workflows/release.yml"))["jobs"]["packages"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    named = {**os.environ, "GITHUB_REF_NAME": f"v{stapo_bench.__version__}{tag}"}
    done = subprocess.run(["bash", "-c", commands[0]], cwd=ROOT, env=named, capture_output=True, check=False)
    assert done.returncode == (1 if tag else 0)


def built_as_it_stands(recipe):
    """A Dockerfile in which each build argument is its default."""
    for line in re.findall(r"^ARG (.+)$", recipe, re.MULTILINE):
        for name, default in (argument.split("=") for argument in line.split()):
            recipe = recipe.replace(f"${name}", default)
    return recipe


def test_the_variants_that_the_dockerfile_names_are_extras_with_versions():
    named = re.findall(r"--build-arg EXTRAS=([\w,]+) --build-arg VERSIONS=(\w+)", read("scripts/container/Dockerfile"))
    optional = read("pyproject.toml").split("[project.optional-dependencies]")[1]
    extras = re.findall(r"^([\w-]+) = \[", optional, re.MULTILINE)
    assert named == [("plots", "core"), ("train,plots", "core")]
    assert all(set(wanted.split(",")) <= set(extras) for wanted, _ in named)
    assert all((ROOT / f"requirements/{versions}.txt").exists() for _, versions in named)


def test_a_failed_step_ends_the_build_by_apptainer():
    post = read("scripts/container/stapo-bench.def").split("%post")[1].split("%environment")[0]
    steps = [line for line in post.splitlines() if not line.strip().startswith("#")]
    assert len(steps) >= 5 and "&&" not in "".join(steps)  # `false && true` does not end `sh -e`


@pytest.mark.parametrize("name", ["Dockerfile", "stapo-bench.def"])
def test_a_container_is_given_what_the_package_is_built_from_and_versions_that_were_resolved(name, tmp_path):
    recipe = built_as_it_stands(read(f"scripts/container/{name}"))
    given = set(re.findall(r"/src/([\w./]+)", recipe)) - {"requirements/vllm.txt"}
    given |= {path for line in re.findall(r"^COPY (.*) /src/$", recipe, re.MULTILINE) for path in line.split()}
    assert given == {
        *("pyproject.toml", "README.md", "LICENSE"),
        *("requirements", "results/published", "scripts/launch", "stapo_bench", "tasks", "train"),
    }
    assert all((ROOT / path).exists() for path in given)
    for path in given:  # and nothing else: the container's own build
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, tmp_path / path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / path, tmp_path / path)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        parts = {"/".join(name.split("/")[:3]) for name in built.namelist()}
    assert {f"stapo_bench/_resources/{part}" for part in ("tasks", "published", "launch")} <= parts
    assert 'pip install --no-cache-dir -c /src/requirements/vllm.txt "/src[vllm]"' in recipe and "pip check" in recipe
    assert "python:3.12" in recipe and re.search(r"^vllm==[\d.]+", read("requirements/vllm.txt"), re.MULTILINE)
