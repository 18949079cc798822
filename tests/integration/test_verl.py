"""An optimizer step of verl's own engine, with our worker, has the gradient, thresholds and counts that are ours.

On verl's FSDP2 engine, on a CPU: one process and two, micro-batches of fixed size and by tokens, and the layouts of
both of verl's trainers. Run by ``scripts/integration.sh verl``, in an environment with verl.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed: scripts/integration.sh runs this")
sys.path.insert(0, str(Path(__file__).parent))
import verl_steps
from random_model import END, random_model, save
from verl_steps import OBJECTIVES, model_of, parse_objective, planted, settings

from stapo_train.objective import policy_loss, select
from stapo_train.policy import Policy

SAME = 1e-6  # of the gradient's norm, in float32
MAIN = ("stapo", "20-entropy", "justrl", "grpo")
CASES = {
    1: [*(f"{name}:fixed" for name in OBJECTIVES), *(f"{name}:dynamic" for name in MAIN), "stapo:padded"],
    2: [*(f"{name}:dynamic" for name in OBJECTIVES), *(f"{name}:fixed" for name in MAIN), "stapo:padded",
        "stapo:fixed:all-tokens", "stapo:fixed:per-micro-batch", "20-entropy:fixed:per-micro-batch"],
}  # fmt: skip


def launch(ranks: int, script: Path, *arguments: str) -> str:
    """Run the script in several processes; its output."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
    folder = Path(__file__).parent
    ran = subprocess.run(
        [*command, str(script), *arguments], capture_output=True, text=True, timeout=540, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    return ran.stdout


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A random model whose tokens differ in entropy."""
    model = random_model(context_length=512, sharpness=6.0, end_ids=[END])
    return save(model, tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def steps(checkpoint, tmp_path_factory):
    """What each rank found, by ranks and case: one launch for all cases of a number of ranks."""
    found = {}
    for ranks, cases in CASES.items():
        folder = tmp_path_factory.mktemp(f"ranks-{ranks}")
        launch(ranks, Path(verl_steps.__file__), str(checkpoint), *cases, str(folder))
        for case in cases:
            files = (folder / f"{case}.{rank}.pt" for rank in range(ranks))
            found[ranks, case] = [SimpleNamespace(**torch.load(file, weights_only=True)) for file in files]
    return found


@pytest.fixture(scope="module")
def ours(checkpoint):
    """Selection and gradient by name: our two functions over all rows of the mini-batch."""
    found = {}
    for name in OBJECTIVES:
        objective, batch = parse_objective(settings(name)), planted(checkpoint, name)
        policy = Policy(model=model_of(checkpoint), temperature=1.0, micro_batch_tokens=100)
        selection = select(policy.measure(batch), objective)
        loss, sums = 0.0, {}
        for micro in policy.split(batch, range(len(batch.rows))):
            out = policy_loss(policy.stats(batch, micro), selection.take(micro.tokens), objective)
            part = out.numerator.sum() / selection.denominator.item()
            part.backward()
            loss += part.item()
            sums = {metric: sums.get(metric, 0.0) + float(value) for metric, value in out.metrics.items()}
        gradient = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
        means = {metric: value / selection.num_tokens for metric, value in sums.items() if metric != "tokens"}
        found[name] = SimpleNamespace(gradient=gradient, selection=selection, loss=loss, means=means)
    return found


def check_same(name: str, found, expected) -> None:
    assert expected.gradient.norm() > 1e-3
    assert (found.gradient - expected.gradient).norm() < SAME * expected.gradient.norm()
    selection, metrics = expected.selection, found.metrics
    assert metrics["objective/num_tokens"] == selection.num_tokens
    assert metrics["objective/num_candidates"] == selection.num_candidates
    assert metrics["objective/num_kept"] == selection.num_kept
    assert metrics["objective/num_silenced"] == selection.num_tokens - selection.num_kept
    for threshold, value in selection.thresholds.items():
        assert metrics[f"objective/{threshold}"] == pytest.approx(value, rel=SAME)
    assert metrics["loss"] == pytest.approx(expected.loss, abs=1e-6)
    assert metrics["pg_loss"] == pytest.approx(expected.loss, abs=1e-6)
    assert metrics["grad_norm"] == pytest.approx(expected.gradient.norm().item(), rel=1e-5)
    for mean, value in expected.means.items():
        assert metrics[f"objective/{mean}"] == pytest.approx(value, rel=1e-5, abs=1e-7)
    if name in ("stapo", "stapo-old", "random-mask", "high-entropy-mask"):
        assert 0 < selection.num_tokens - selection.num_kept < selection.num_candidates


@pytest.mark.parametrize(
    ("ranks", "case"), [(ranks, case) for ranks, cases in CASES.items() for case in cases if case.count(":") == 1]
)
def test_a_step_has_our_gradient(ranks, case, steps, ours):
    name = case.split(":")[0]
    first, *others = steps[ranks, case]
    check_same(name, first, ours[name])
    assert all(torch.equal(first.gradient, other.gradient) for other in others)


@pytest.mark.parametrize("case", [case for case in CASES[2] if case.count(":") == 2])
def test_another_denominator_or_another_unit_of_the_quantile_is_seen(case, steps, ours):
    name = case.split(":")[0]
    found, expected = steps[2, case][0], ours[name]
    apart = (found.gradient - expected.gradient).norm() / expected.gradient.norm()
    assert apart > 100 * SAME, f"{case}: {apart:.2g}"
    with pytest.raises(AssertionError):
        check_same(name, found, expected)
