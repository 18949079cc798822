"""Objectives by name, ours and other packages'; and whether what a class says that it needs is true."""

import subprocess
import sys
from dataclasses import dataclass, fields
from typing import ClassVar

import pytest
import torch

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting.figures.style import RED, SKY, read_look, read_methods
from stapo_train import objectives
from stapo_train.check.check_objective import check_objective
from stapo_train.cost.estimate import passes
from stapo_train.objective import LEAST, Needs, Objective, keep
from stapo_train.objectives import REGISTRY, build, methods
from stapo_train.objectives.dapo import Dapo
from stapo_train.objectives.stapo import Stapo


@pytest.mark.parametrize("name", list(REGISTRY))
def test_the_settings_of_an_objective_are_given_by_name_alone(name):
    assert [field.name for field in fields(REGISTRY[name]) if not field.kw_only] == []


# --- what a class needs ----------------------------------------------------------------------------------------------


def test_a_class_that_says_nothing_needs_everything():
    class Quiet(Stapo):
        pass

    everything = Needs(current_policy="all", zero_advantage_statistics=True, zero_advantage_gradient=True)
    assert Objective.needs == Quiet.needs == everything
    assert Stapo.needs == Needs(
        current_policy="few", zero_advantage_statistics=False, zero_advantage_gradient=False
    )  # its parent's are as they were


@dataclass(frozen=True, kw_only=True)
class AboveMean(Dapo):
    """Keeps tokens whose entropy, under the current policy, is above the mean over all tokens."""

    label: ClassVar[str] = "Above the mean"
    source: ClassVar[str] = "an example"

    def select(self, stats, reduce, phase):
        return keep(stats, stats.entropy > stats.entropy.mean(), reduce)


@dataclass(frozen=True, kw_only=True)
class Likely(Dapo):
    """Of the tokens with an advantage, keeps those that the current policy finds more likely than the median."""

    label: ClassVar[str] = "Likely"
    source: ClassVar[str] = "an example"

    def select(self, stats, reduce, phase):
        informative = stats.advantages != 0
        return keep(stats, ~informative | (stats.log_probs > stats.log_probs[informative].median()), reduce)


@dataclass(frozen=True, kw_only=True)
class PullsOnAll(Dapo):
    """Adds ln pi to the surrogate of every token, whatever its advantage."""

    label: ClassVar[str] = "Pulls on all"
    source: ClassVar[str] = "an example"

    def term(self, stats, selection):
        return super().term(stats, selection) + stats.log_probs


@dataclass(frozen=True, kw_only=True)
class ReadsThreshold(Dapo):
    """Its term has a threshold in it: running the tokens whose decisions changed again does not set that right."""

    label: ClassVar[str] = "Reads a threshold"
    source: ClassVar[str] = "an example"

    def select(self, stats, reduce, phase):
        mean = float(stats.entropy.mean())
        return keep(stats, torch.ones_like(stats.entropy, dtype=torch.bool), reduce, thresholds={"mean": mean})

    def term(self, stats, selection):
        return super().term(stats, selection) * selection.thresholds["mean"]


NO_STATISTICS = Needs(zero_advantage_statistics=False, zero_advantage_gradient=False)


@pytest.mark.parametrize(
    ("written", "needs", "is_true"),
    [
        (AboveMean, Needs(current_policy="few", zero_advantage_gradient=False), True),
        (AboveMean, LEAST, False),
        *(
            pytest.param(*case, marks=pytest.mark.slow(reason="all checks of an objective, for each of ten more"))
            for case in (
                (Dapo, LEAST, True),
                (AboveMean, Needs(), True),
                (AboveMean, Needs(zero_advantage_gradient=False), True),
                (AboveMean, NO_STATISTICS, False),
                (Likely, NO_STATISTICS, True),
                (Likely, LEAST, False),
                (PullsOnAll, Needs(current_policy="none", zero_advantage_statistics=False), True),
                (PullsOnAll, LEAST, False),
                (ReadsThreshold, Needs(zero_advantage_gradient=False), True),
                (ReadsThreshold, Needs(current_policy="few", zero_advantage_gradient=False), False),
            )
        ),
    ],
)
def test_what_a_class_says_that_it_needs_is_found_true_or_not(written, needs, is_true, monkeypatch):
    stated = dataclass(frozen=True, kw_only=True)(type(written.__name__, (written,), {"needs": needs}))
    monkeypatch.setitem(REGISTRY, "stated", stated)
    failed = {c.name for c in check_objective("stated", ranks=False, large_vocabulary=False) if not c.passed}
    by_stale = {f"the trainer's passes, statistics off by {nats}" for nats in (0.3, 3)}
    assert failed == (set() if is_true else by_stale)


def test_passes_follow_from_what_an_objective_needs(monkeypatch):
    monkeypatch.setitem(REGISTRY, "above-mean", AboveMean)
    # old log-probs 1, update 4, selection under the current policy 1; Lopti makes two updates
    assert {name: passes(name) for name in ("grpo", "20-entropy", "above-mean", "lopti")} == {
        "grpo": 5, "20-entropy": 6, "above-mean": 6, "lopti": 9,
    }  # fmt: skip


# --- other packages --------------------------------------------------------------------------------------------------

THEIRS = '''
from dataclasses import dataclass, fields
from typing import ClassVar

from stapo_train.objective import Objective, Reduce, Selection, TokenStats, keep


@dataclass(frozen=True, kw_only=True)
class PositiveOnly(Objective):
    """Learn from good rollouts alone."""

    label: ClassVar[str] = "Positive only"
    look: ClassVar[str] = "sky plus dashed"
    source: ClassVar[str] = "an example"

    least: float = 0.0

    def select(self, stats: TokenStats, reduce: Reduce, phase: int) -> Selection:
        return keep(stats, stats.advantages > self.least, reduce)


SOMETHING = 3
'''


@pytest.fixture
def other_package(tmp_path, monkeypatch):
    """Install a package that offers objectives: a function of the lines of its entry points."""

    def install(*lines):
        (tmp_path / "their_package").mkdir()
        (tmp_path / "their_package" / "__init__.py").write_text("")
        (tmp_path / "their_package" / "positive.py").write_text(THEIRS)
        about = tmp_path / "their_package-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("\n".join(["[stapo_train.objectives]", *lines, ""]))
        monkeypatch.syspath_prepend(tmp_path)
        objectives.places.cache_clear()
        return tmp_path

    yield install
    monkeypatch.undo()
    objectives.places.cache_clear()
    for name in [name for name in sys.modules if name.startswith("their_package")]:
        del sys.modules[name]


def test_an_objective_of_another_package_is_one_like_ours(other_package):
    before = list(REGISTRY)
    other_package("their-positive = their_package.positive:PositiveOnly")
    assert list(REGISTRY) == [*before, "their-positive"]
    assert "their_package.positive" not in sys.modules  # nobody asked for it yet
    assert build("their-positive", least="1e-3").least == 0.001
    assert build("their-positive").needs == Needs()
    assert all(check.passed for check in check_objective("their-positive", ranks=False, large_vocabulary=False))
    with pytest.raises(UsageError, match="unknown objective 'their-positiv': did you mean 'their-positive'"):
        build("their-positiv")
    with pytest.raises(UsageError, match="unknown setting of objective their-positive 'leest': did you mean 'least'"):
        build("their-positive", leest=1)


def test_figures_and_commands_know_an_objective_of_another_package(other_package):
    folder = other_package("their-positive = their_package.positive:PositiveOnly")
    found = read_methods()["their-positive"]
    assert (found.label, found.look) == ("Positive only", read_look("", "sky plus dashed"))
    assert found.look.colour == SKY
    code = (
        "import sys; from stapo_train.objectives import methods; print(methods()['their-positive']); "
        "import stapo_bench.presenting.figures.style as style; print(style.METHODS['their-positive'].label); "
        "print('torch' in sys.modules)"
    )
    path = f"{folder}:{':'.join(sys.path)}"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == ["('Positive only', 'sky plus dashed')", "Positive only", "False"], ran.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "broken = their_package.absent:PositiveOnly",
            "cannot load their_package.absent:PositiveOnly: No",
        ),
        ("broken = their_package.positive:Absent", "cannot load their_package.positive:Absent: module"),
        ("broken = their_package.positive:SOMETHING", "expected a subclass of Objective at .*SOMETHING, got 3"),
    ],
)
def test_a_broken_package_is_named_when_its_objective_is_asked_for(line, message, other_package):
    other_package(line)
    assert build("stapo").q == 0.75  # the others are as they were
    assert methods()["broken"] == ("broken", "")
    with pytest.raises(StapoError, match=f"objective broken: {message}"):
        build("broken")


def test_a_name_of_ours_cannot_be_taken(other_package):
    other_package("stapo = their_package.positive:PositiveOnly")
    assert build("stapo").label == "STAPO"


# --- how they are shown ----------------------------------------------------------------------------------------------


def test_labels_and_looks_read_from_the_source_are_the_classes_own():
    assert methods() == {name: (objective.label, objective.look) for name, objective in REGISTRY.items()}
    assert methods()["stapo"] == ("STAPO", "red circle solid")
    assert read_methods()["stapo"].look.colour == RED
    assert next(iter(read_methods())) == "base"


def test_a_look_is_three_words_or_none():
    assert read_look("a", "") != read_look("b", "")  # one of the label's own
    for text in ("red circle", "red circle solid thick", "rot circle solid"):
        with pytest.raises(StapoError) as caught:
            read_look("Mine", text)
        assert str(caught.value).startswith("look of Mine: expected colour, marker and dash (orange or sky or")
        assert str(caught.value).endswith(f"got '{text}'")


def test_every_objective_says_what_it_is_called_and_where_it_is_from():
    for name, objective in REGISTRY.items():
        assert objective.label and objective.source and objective.__doc__, name
        read_look(objective.label, objective.look)
