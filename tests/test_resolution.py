"""The stored resolution of every extra on every Python is of today's pyproject.toml and of today's tested versions."""

import json
import re
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.resolution import CONSTRAINTS, PYTHONS, ROOT, STORED, digest, requirements_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ROWS = {(row["extra"], row["python"]): row for row in json.loads(STORED.read_text(encoding="utf-8"))}
AGAIN = "run python -m bench.resolution --extra {}"
REFUSED = {("inspect", "3.10"), ("trl", "3.10"), ("verl", "3.13"), ("verl-gpu", "3.13")}
"""inspect_ai and TRL 1.16 want Python 3.11, verl 0.9.1 one below 3.13."""


def asked(extra, python):
    """The requirements that count on a Python, as on Linux with CUDA."""
    environment = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux", "extra": ""}
    found = (Requirement(text) for text in requirements_of(PROJECT, extra))
    return [one for one in found if one.marker is None or one.marker.evaluate(environment)]


def pins(name, python):
    """The versions that a file in requirements/ names for a Python."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line.split(" #")[0]) for line in lines if line.strip() and not line.startswith("#")]
    environment = {"python_version": python, "python_full_version": f"{python}.9"}
    return {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one in found
        if one.marker is None or one.marker.evaluate(environment)
    }


def test_every_extra_has_been_asked_for_on_every_python():
    assert set(CONSTRAINTS) == set(PROJECT["optional-dependencies"])
    assert set(ROWS) == {(extra, python) for extra in CONSTRAINTS for python in PYTHONS}
    assert {key for key, row in ROWS.items() if "refused" in row} == REFUSED


@pytest.mark.parametrize(("extra", "python"), sorted(set(ROWS) - REFUSED))
def test_what_pip_found_is_what_is_asked_for_today(extra, python):
    row = ROWS[extra, python]
    assert row["constraints"] == digest(CONSTRAINTS[extra]), AGAIN.format(extra)
    for requirement in asked(extra, python):
        version = row["versions"].get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement}: new; {AGAIN.format(extra)}"
        assert requirement.specifier.contains(version), f"{requirement}: got {version}; {AGAIN.format(extra)}"
    for file in CONSTRAINTS[extra]:
        named = pins(file, python)
        other = {name: (v, named[name]) for name, v in row["versions"].items() if named.get(name, v) != v}
        assert not other, f"requirements/{file}.txt: {other}"


def test_an_environment_for_gpus_has_torch_for_cuda_and_one_triton():
    for extra, python in sorted(set(ROWS) - REFUSED):
        versions = ROWS[extra, python]["versions"]
        if "torch" in versions:
            assert "+" not in versions["torch"] and "triton" in versions, (extra, python)
    tested = re.search(r"^triton==(\S+)", (ROOT / "requirements" / "triton.txt").read_text(), re.MULTILINE)[1]
    trained_with = {ROWS[extra, python]["versions"]["triton"] for extra in ("train", "vllm") for python in PYTHONS}
    assert trained_with == {tested}  # the kernels are tested with the version that the trainer's torch brings


def test_vllm_and_the_core_cannot_share_an_environment_and_need_not():
    """vLLM 0.32 wants transformers below 5.20, the core is tested with 5.23; verl's vLLM is another one again."""
    assert ROWS["vllm", "3.12"]["versions"]["transformers"] == "5.19.0"
    assert ROWS["dev", "3.12"]["versions"]["transformers"] == "5.23.0"
    stack = ROWS["verl-gpu", "3.12"]["versions"]
    named = {"verl": "0.9.1", "torch": "2.11.0", "vllm": "0.24.0", "transformers": "5.10.4"}
    assert {name: stack[name] for name in named} == named
