"""Our objectives inside TRL's trainer: whole training steps, on one rank and on two, have our gradient.

Run by ``scripts/integration.sh trl``, in an environment with TRL. As a script, one rank of a training:
``torchrun --nproc_per_node 2 test_trl_trainer.py CHECKPOINT OBJECTIVE ACCUMULATE FOLDER``.
"""

import copy
import json
import math
import os
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("trl", reason="TRL is not installed: scripts/integration.sh runs this")
import datasets
import transformers
from random_rollouts import GROUP_SIZE, GROUPS, MAX_NEW_TOKENS, check_reported, drawn
from trl import GRPOConfig

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting.figures import Sources
from stapo_bench.records import Grade, Outcome
from stapo_train.batch import Batch, collate
from stapo_train.integrations import trl as integration
from stapo_train.integrations.trl import StapoGRPOTrainer, grader_reward
from stapo_train.objective import policy_loss, select
from stapo_train.objectives import REGISTRY, for_run
from stapo_train.policy import Policy
from stapo_train.update import Step, accumulate_gradient

ROWS = GROUPS * GROUP_SIZE
SAME = 1e-6  # of the gradient's norm; all in float64 but TRL's rewards, which are 0 and 1
SETTINGS = {
    **{name: {"tau_p": 0.0035} for name in ("stapo", "stapo-old", "high-entropy-mask", "full-mask")},
    "justrl": {"dual_clip": 2.0},
    "stare": {"max_entropy": 9.0, "gate": "mini-batch"},
    "kl-cov": {"share": 0.05},
}
"""The random model's tokens have probabilities about 1/300: every objective finds something to decide on."""

OBJECTIVES = {
    name: SETTINGS.get(name, {})
    for name, objective in REGISTRY.items()
    if objective.num_phases == 1
    and objective.min_p is None
    and name not in ("random-mask", "clip-cov", "stapo-micro-batch")
}
"""All that TRL's trainer can compute, but for those that depend on a token's place among its rank's."""

MAIN = ("stapo", "20-entropy", "justrl", "grpo")


def objective_of(name: str):
    return for_run({"name": name, **OBJECTIVES[name]}, seed=0, max_new_tokens=MAX_NEW_TOKENS)


def model_of(checkpoint: Path):
    return transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float64)


def planted(checkpoint: Path, name: str) -> Batch:
    """The mini-batch as our trainer has it; the policy has moved since it was drawn, past every clip."""
    rollouts = drawn()
    rewards, group_ids = (np.array([getattr(r, field) for r in rollouts]) for field in ("reward", "group_id"))
    lengths = np.array([len(r.response_ids) for r in rollouts])
    advantages = objective_of(name).advantages(rewards, group_ids, lengths)
    batch = collate(rollouts, advantages, torch.float64, torch.device("cpu"))
    now = Policy(model=model_of(checkpoint), temperature=1.0, micro_batch_tokens=100).measure(batch)
    noise = torch.randn(len(now.log_probs), generator=torch.Generator().manual_seed(1)).clamp(-3, 3).double()
    # The old entropies are no good: a selection that used them would be another one.
    old = now.log_probs + (4e-3 if name == "gspo" else 0.4) * noise
    return replace(batch, stats=replace(now, old_log_probs=old, entropy=now.entropy.flip(0)))


def ours(model, batch: Batch, name: str) -> SimpleNamespace:
    """Gradient and selection of our own trainer."""
    policy = Policy(model=model, temperature=1.0, micro_batch_tokens=100)
    step = Step(objective=objective_of(name), clip_norm=1.0, method="probe", first=False)
    total = accumulate_gradient(policy, batch, step)
    denominator = total.selection.denominator.item()
    gradient = flat_gradient(policy.model) / denominator
    return SimpleNamespace(gradient=gradient, selection=total.selection, loss=total.numerator / denominator)


def flat_gradient(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters()])


class Planted(StapoGRPOTrainer):
    """Trains on given rollouts: only drawing is replaced, and what the policy was when they were drawn."""

    def __init__(self, *, batch: Batch, **others) -> None:
        super().__init__(**others)
        self.batch = batch

    def rows_of_rank(self, count: int) -> range:
        first = self.accelerator.process_index * count
        return range(first, first + count)

    def _generate(self, prompts):
        rows = [self.batch.rows[r] for r in self.rows_of_rank(len(prompts))]
        prompt_ids, completion_ids = ([list(row[side]) for row in rows] for side in (0, 1))
        return prompt_ids, completion_ids, None, [""] * len(rows), None, {}, None, None

    def _generate_and_score_completions(self, inputs):
        found = super()._generate_and_score_completions(inputs)
        mask = found["completion_mask"].bool()
        old = torch.zeros(mask.shape, dtype=torch.float64)
        old[mask] = self.batch.stats.old_log_probs[self.batch.token_index(self.rows_of_rank(len(inputs)))]
        return {**found, "old_per_token_logps": old}


def planted_reward(completion_ids, **_):
    known = {r.response_ids: r.reward for r in drawn()}
    assert len(known) == ROWS
    return [None if math.isnan(known[tuple(ids)]) else known[tuple(ids)] for ids in completion_ids]


class Recorder(transformers.TrainerCallback):
    """What the optimizer sees at each step, and the weights before it."""

    def __init__(self) -> None:
        self.gradients: list[torch.Tensor] = []
        self.weights: list[dict[str, torch.Tensor]] = []

    def on_pre_optimizer_step(self, *_, model, **__):
        self.gradients.append(flat_gradient(model))
        self.weights.append(copy.deepcopy(model.state_dict()))


def settings(folder: Path, accumulate: int, ranks: int = 1, **others) -> GRPOConfig:
    mine = {
        "output_dir": str(folder), "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no",
        "gradient_checkpointing": False, "disable_tqdm": True, "logging_steps": 1, "max_steps": 1,
        "max_grad_norm": 0.0, "learning_rate": 0.0, "shuffle_dataset": False,
        "per_device_train_batch_size": ROWS // accumulate // ranks, "gradient_accumulation_steps": accumulate,
        "num_generations": GROUP_SIZE, "max_completion_length": MAX_NEW_TOKENS,
    }  # fmt: skip
    return GRPOConfig(**mine | others)


def train(checkpoint: Path, name: str, args: GRPOConfig) -> SimpleNamespace:
    """Steps of TRL's trainer on the planted rollouts."""
    recorder = Recorder()
    trainer = Planted(
        batch=planted(checkpoint, name),
        objective=objective_of(name),
        model=model_of(checkpoint),
        reward_funcs=planted_reward,
        args=args,
        train_dataset=datasets.Dataset.from_list([{"prompt": "1"}] * GROUPS),
        processing_class=transformers.AutoTokenizer.from_pretrained(checkpoint),
        callbacks=[recorder],
    )
    trainer.train()
    return SimpleNamespace(trainer=trainer, recorder=recorder, logs=trainer.state.log_history)


def check_same(name: str, gradient: torch.Tensor, log: dict, expected: SimpleNamespace) -> None:
    assert expected.gradient.norm() > 1e-3
    assert (gradient - expected.gradient).norm() < SAME * expected.gradient.norm()
    selection = expected.selection
    check_reported(log, selection, SAME)
    assert log["loss"] == pytest.approx(expected.loss, abs=1e-4)  # TRL rounds it
    if name in ("stapo", "stapo-old"):
        assert 0 < selection.num_tokens - selection.num_kept < selection.num_candidates
        assert log["objective/candidate_entropy"] > 0


@pytest.mark.parametrize(("name", "accumulate"), [(n, 4) for n in OBJECTIVES] + [(n, 1) for n in MAIN])
def test_a_training_step_has_our_gradient(name, accumulate, checkpoint, tmp_path):
    found = train(checkpoint, name, settings(tmp_path, accumulate))
    expected = ours(model_of(checkpoint), planted(checkpoint, name), name)
    check_same(name, found.recorder.gradients[0], found.logs[0], expected)


@pytest.fixture(scope="module")
def on_two_ranks(checkpoint, tmp_path_factory) -> Path:
    """A folder for each of the main objectives, trained one after another by two processes."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", __file__]
    ran = subprocess.run(
        [*command, str(checkpoint), str(folder), *MAIN],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", MAIN)
def test_two_ranks_have_the_gradient_of_one(name, checkpoint, on_two_ranks):
    first, second = (torch.load(on_two_ranks / name / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert torch.equal(first, second)
    expected = ours(model_of(checkpoint), planted(checkpoint, name), name)
    check_same(name, first, json.loads((on_two_ranks / name / "log.json").read_text()), expected)


@pytest.mark.parametrize("name", ["stapo", "grpo"])
def test_each_window_of_a_generation_is_selected_under_the_policy_of_its_time(name, checkpoint, tmp_path):
    args = settings(tmp_path, 2, per_device_train_batch_size=4, steps_per_generation=4, max_steps=2, learning_rate=1e-3)
    found = train(checkpoint, name, args)
    batch = planted(checkpoint, name)
    place = {response: row for row, (_, response) in enumerate(batch.rows)}
    buffered = found.trainer._buffered_inputs
    for window in (0, 1):
        rows = [
            place[tuple(ids[mask.bool()].tolist())]
            for part in buffered[2 * window : 2 * window + 2]
            for ids, mask in zip(part["completion_ids"], part["completion_mask"], strict=True)
        ]
        model = model_of(checkpoint)
        model.load_state_dict(found.recorder.weights[window])
        expected = ours(model, batch.select_rows(rows), name)
        check_same(name, found.recorder.gradients[window], found.logs[window], expected)


def test_a_real_run_draws_grades_and_logs(checkpoint, tmp_path):
    def long_enough(completions, **_):
        return [float(len(c) % 2) for c in completions]

    # One learns from both signs, one from a grader that finds everything wrong: then nothing may move.
    for reward, moves in ((long_enough, True), (grader_reward("strict", workers=1), False)):
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
        before = copy.deepcopy(model.state_dict())
        rows = datasets.Dataset.from_list([{"prompt": f"{i} + 1 = ", "gold": f"{i + 1}"} for i in range(8)])
        trainer = StapoGRPOTrainer(
            objective={"name": "stapo", "tau_p": 0.0035},
            model=model,
            reward_funcs=reward,
            args=settings(tmp_path, 2, max_steps=3, learning_rate=1e-3, weight_decay=0.0, steps_per_generation=4),
            train_dataset=rows,
            eval_dataset=rows,
            processing_class=transformers.AutoTokenizer.from_pretrained(checkpoint),
        )
        trainer.train()
        logs = trainer.state.log_history[:3]
        (training,) = Sources(logs=[tmp_path]).trainings  # the same numbers, as a training log of ours
        assert (training.method, training.iterations, training.objective["tau_p"]) == ("STAPO", (1, 2, 3), 0.0035)
        assert training.column("entropy").tolist() == pytest.approx([log["objective/entropy"] for log in logs])
        shares = [log["objective/num_silenced"] / log["objective/num_tokens"] for log in logs]
        assert training.column("masked_share").tolist() == pytest.approx(shares)
        assert all(math.isfinite(log["loss"]) for log in logs)
        assert all((log["objective/num_silenced"] > 0) == moves for log in logs)
        assert all(0 < log["objective/num_kept"] <= log["objective/num_tokens"] for log in logs)
        assert 0 < logs[0]["objective/entropy"] <= math.log(300)
        # The first step's policy is the one that drew; the second's has moved.
        assert logs[0]["objective/ratio"] == pytest.approx(1, abs=1e-5)
        assert (abs(logs[1]["objective/ratio"] - 1) > 1e-5) == moves
        assert any(not torch.equal(before[name], value) for name, value in model.state_dict().items()) == moves
        assert math.isfinite(trainer.evaluate()["eval_loss"])
        stored = trainer.model.config.to_dict()["stapo_objective"]  # by every tracker, and in every checkpoint
        assert (stored["label"], stored["tau_p"], stored["q"], stored["dual_clip"]) == ("STAPO", 0.0035, 0.75, 10.0)


def test_the_readme_s_example_runs(checkpoint, tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "train" / "README.md").read_text()
    code = text.split("## Inside TRL", 1)[1].split("```python\n", 1)[1].split("```", 1)[0]
    assert '"CHECKPOINT"' in code
    (tmp_path / "example.py").write_text(code.replace('"CHECKPOINT"', repr(str(checkpoint))))
    monkeypatch.chdir(tmp_path)
    trainer = runpy.run_path("example.py")["trainer"]
    assert trainer.state.global_step == trainer.args.max_steps > 0
    assert "objective/num_silenced" in trainer.state.log_history[0]


def test_rewards_are_the_grader_s_and_a_failure_is_unknown(monkeypatch):
    reward = grader_reward("strict", workers=1)
    assert reward.__name__ == "grader_reward"  # what TRL logs it under
    chat = [{"role": "assistant", "content": r"\boxed{42}"}]
    texts = [r"\boxed{42}", r"\boxed{41}", "no idea", chat]
    assert reward(completions=texts, gold=["42", "42", "42", {"answer": "42"}], prompts=[]) == [1.0, 0.0, 0.0, 1.0]

    class Broken:
        def __init__(self, *_, **__) -> None:
            pass

        def grade(self, pairs):
            return [Grade(outcome=Outcome.GRADER_ERROR, extracted=None, detail="crashed", grader="x") for _ in pairs]

    monkeypatch.setattr("stapo_bench.grading.adapters.GraderPool", Broken)
    assert grader_reward()(completions=["1"], gold=["1"]) == [None]


@pytest.mark.parametrize(
    ("objective", "changed", "message"),
    [
        ("stapo", {"epsilon_high": 0.3}, "GRPOConfig.epsilon_high: expected None, got 0.3"),
        ("dapo", {"delta": 10.0}, "GRPOConfig.delta: expected None, got 10.0"),
        ("rloo", {"scale_rewards": "none"}, "GRPOConfig.scale_rewards: expected 'group', got 'none'"),
        ("stapo", {"beta": 0.1}, "GRPOConfig.beta: expected 0.0, got 0.1"),
        ("grpo", {"scale_rewards": "none"}, "GRPOConfig.scale_rewards: expected 'group', got 'none'"),
        ("stapo", {"gradient_accumulation_steps": 4, "steps_per_generation": 2}, "expected a multiple of"),
        ("lopti", {}, "Lopti needs several steps per mini-batch"),
        ("lp-reg", {}, "Lp-Reg needs a proxy distribution"),
        ("stare", {}, "STARE needs the mean entropy of all of an iteration's rollouts"),
    ],
)
def test_what_would_not_be_heard_is_refused(objective, changed, message, tmp_path):
    with pytest.raises(UsageError, match=message) as caught:
        StapoGRPOTrainer(objective={"name": objective}, args=settings(tmp_path, 2, **changed), model="not read")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mode", ["token", "sequence"])
def test_the_ratio_of_trl_s_correction_multiplies_each_tokens_term(mode):
    # Two rows of 3 and 2 tokens; TRL's ratio is [B, T], or [B, 1] of whole sequences.
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    ratio = torch.tensor([[0.5, 2.0, 1.5], [0.25, 3.0, 9.0]] if mode == "token" else [[0.5], [2.0]]).double()
    log_probs = torch.tensor([[-0.1, -0.2, -0.3], [-0.4, -0.5, -9.0]]).double().requires_grad_()
    old = log_probs.detach() - torch.tensor([[0.1, -0.1, 0.5], [0.1, -0.5, 0.0]]).double()
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(num_processes=1, process_index=0),
        args=SimpleNamespace(gradient_accumulation_steps=1),
        state=SimpleNamespace(global_step=0),
    )
    inputs = {
        "completion_mask": mask, "advantages": torch.tensor([1.0, -1.0]).double(), "old_per_token_logps": old,
        "importance_sampling_ratio": ratio,
    }  # fmt: skip
    objective = for_run({"name": "dapo"}, seed=0, max_new_tokens=3)
    stats = StapoGRPOTrainer._stats(trainer, inputs, 0, log_probs, torch.zeros(2, 3).double())
    selection = select(replace(stats, log_probs=stats.log_probs.detach()), objective)
    loss = policy_loss(stats, selection, objective).numerator.sum() / selection.divisor
    (found,) = torch.autograd.grad(loss, log_probs)
    # By hand: -w rho A / 5, but 0 where the clip holds: e^0.5 above 1.28 with A > 0, e^-0.5 below 0.8 with A < 0.
    rho = torch.tensor([[0.1, -0.1, -torch.inf], [0.1, -torch.inf, -torch.inf]]).double().exp()
    expected = -ratio * rho * torch.tensor([[1.0], [-1.0]]) / 5
    assert torch.allclose(found, expected, rtol=1e-12)


def test_a_correction_without_its_ratio_stops_the_window(tmp_path, monkeypatch):
    theirs = StapoGRPOTrainer.__mro__[1]
    monkeypatch.setattr(theirs, "_prepare_inputs", lambda self, batch: batch)
    args = SimpleNamespace(use_vllm=True, vllm_importance_sampling_correction=True)
    trainer = object.__new__(StapoGRPOTrainer)
    trainer.args = args
    with pytest.raises(StapoError, match="correction: True, and the batch has no importance_sampling_ratio"):
        trainer._prepare_inputs({"advantages": None})


def test_what_a_script_says_of_the_objective_itself_is_taken(tmp_path):
    said = {"epsilon": 0.2, "epsilon_high": 0.28, "delta": 10.0, "scale_rewards": "group"}
    integration._check(objective_of("stapo"), settings(tmp_path, 2, **said))
    integration._check(objective_of("dr-grpo"), settings(tmp_path, 2, scale_rewards="none"))


def one_rank(checkpoint: str, folder: str, *names: str) -> None:
    for name in names:
        out = Path(folder) / name
        out.mkdir(exist_ok=True)
        found = train(Path(checkpoint), name, settings(out, accumulate=2, ranks=2))
        rank = found.trainer.accelerator.process_index
        torch.save(found.recorder.gradients[0], out / f"{rank}.pt")
        if rank == 0:
            (out / "log.json").write_text(json.dumps(found.logs[0]))


if __name__ == "__main__":
    one_rank(*sys.argv[1:])
