"""A run folder that an earlier version made still loads, scores, compares and resumes, to the same bytes.

``data/run_before`` was made once, at commit 693640e, and is never made again, but for the intervals for problems like
these in ``compare.txt``, which have held unseen changes since:

    stapo-bench eval --ckpt scripted.yaml --decoding justrl --tasks tiny_aime24,tiny_amc23 --limit 3 --samples 4 \
        --max-new-tokens 64 --engine scripted --seed 7 --out run
    stapo-bench grade run --grader strict
    stapo-bench score run --grader strict    # its scores.json is kept as scores-strict.json
    stapo-bench compare run copy > compare.txt
"""

import io
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from stapo_bench.analysis.score_file import current_score, score_run
from stapo_bench.cli import cli
from stapo_bench.engines import EngineOptions
from stapo_bench.records import Outcome, SampleKey
from stapo_bench.runs.loaded_run import load_run
from stapo_bench.runs.manifest import load_manifest
from stapo_bench.runs.store import read_samples
from stapo_bench.sampling import identity
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.evaluation import evaluate

STORED = Path(__file__).parent / "data" / "run_before"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of the stored run, in a folder of the same name."""
    shutil.copytree(STORED / "run", tmp_path / "run")
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that holds something, by its path in the folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_it_loads(run):
    loaded = load_run(run, "strict")
    assert (loaded.name, loaded.grader, list(loaded.tasks)) == ("run", "strict-1", ["tiny_aime24", "tiny_amc23"])
    assert loaded.title("tiny_amc23") == "Tiny AMC23"
    manifest = load_manifest(run)
    assert manifest.digest == "24a0d39783ccefb0f84cea7749135a33555b0d168679174a440b30dad415ee9c"
    assert manifest.stamps == {"tiny_aime24": "2cf98d64", "tiny_amc23": "ae8de57f"}
    assert manifest.seed == 7
    samples = {sample.key: sample for sample in read_samples(run, manifest.stamps)}
    assert len(samples) == 24
    assert samples[SampleKey("tiny_aime24", "tiny-aime24-003", 0)].completion == "\\boxed{982451653}"


@pytest.mark.parametrize(("grader", "stored"), [("math", "run/scores.json"), ("strict", "scores-strict.json")])
def test_it_scores_to_the_same_bytes(run, grader, stored):
    (run / "scores.json").unlink()
    score_run(run, grader)
    assert (run / "scores.json").read_bytes() == (STORED / stored).read_bytes()


def test_its_stored_scores_are_read(run):
    score = current_score(run)
    assert (score.grades, score.macro.value) == ("math", 0.625)  # (8/12 + 7/12) / 2
    assert [task.num_no_answer for task in score.tasks] == [3, 3]


def test_it_compares_with_a_copy_to_the_same_text(run, monkeypatch):
    shutil.copytree(run, run.with_name("copy"))
    monkeypatch.chdir(run.parent)
    result = CliRunner().invoke(cli, ["compare", "run", "copy"], catch_exceptions=False)
    assert result.output == (STORED / "compare.txt").read_text(encoding="utf-8")


def evaluate_again(run: Path, monkeypatch: pytest.MonkeyPatch, **more: int) -> str:
    """The command that made the run; returns what it says."""
    shutil.copy(STORED / "scripted.yaml", run.parent)
    monkeypatch.chdir(run.parent)
    monkeypatch.setattr(identity, "__version__", "0.1.0")  # as it was then: it decides a sample
    said = io.StringIO()
    asked = {"limit": 3, "samples": 4} | more
    options = EvalOptions(
        checkpoint=Path("scripted.yaml"),
        decoding="justrl",
        tasks=("tiny_aime24", "tiny_amc23"),
        out=Path("run"),
        max_new_tokens=64,
        engine=EngineOptions(name="scripted"),
        seed=7,
        **asked,
    )
    evaluate(options, watch=said)
    return said.getvalue()


def test_nothing_is_missing_and_nothing_is_written(run, monkeypatch):
    before = contents(run)
    assert evaluate_again(run, monkeypatch).endswith("nothing is missing\n")
    assert contents(run) == before


def test_a_sample_that_is_missing_is_sampled_again_and_the_manifest_stays(run, monkeypatch):
    (segment,) = (run / "samples").glob("*.jsonl")
    first, *rest = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(rest))
    manifest = (run / "manifest.json").read_bytes()
    evaluate_again(run, monkeypatch)
    (new,) = set((run / "samples").glob("*.jsonl")) - {segment}
    assert new.read_bytes() == first
    assert (run / "manifest.json").read_bytes() == manifest


def test_more_samples_join_it(run, monkeypatch):
    evaluate_again(run, monkeypatch, samples=5)
    loaded = load_run(run, "strict")
    outcomes = loaded.outcomes["tiny_aime24"]
    assert outcomes.scores.shape == (3, 5)
    assert outcomes.undecided.sum() == 3  # the fifth samples have no grade yet
    graded = {sample.outcome for sample in loaded.samples["tiny_amc23"]}
    assert graded == {Outcome.CORRECT, Outcome.INCORRECT, Outcome.NO_ANSWER, None}
