"""Dumps, and what replay, sweep and audit read out of them."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from train_setup import grade_by_hash, make_base, make_config, make_dump

from stapo_bench.errors import StapoError, UsageError
from stapo_train import run
from stapo_train.advantages import group_advantages
from stapo_train.cli import cli
from stapo_train.inspect.dump import load_dump, save_dump
from stapo_train.inspect.replay import audit, cosine, objective_for, overlap, replay, sweep
from stapo_train.inspect.stability import stability
from stapo_train.objective import policy_loss, select
from stapo_train.train_records import Rollout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of two iterations with the second's last mini-batch dumped."""
    return make_dump(tmp_path_factory.mktemp("run"), 2)


@pytest.fixture(scope="module")
def dump(folder):
    return load_dump(folder)


def test_a_dump_holds_the_mini_batch_and_the_weights_it_met(dump):
    assert len(dump.batch.rows) == 8  # half of 4 prompts x 4 rollouts
    assert dump.about.objective == {"name": "stapo", "tau_p": 0.02}
    advantages = group_advantages(dump.rewards.numpy(), dump.group_ids.numpy())
    assert dump.batch.row_advantages.tolist() == pytest.approx(advantages.tolist()) and advantages.any()
    # the last mini-batch of an iteration meets weights that one step has moved
    assert (dump.batch.stats.log_probs - dump.batch.stats.old_log_probs).abs().max() > 1e-4


def test_the_runs_own_settings_are_the_default_of_its_objective(dump):
    assert objective_for(dump, "stapo").tau_p == 0.02
    assert objective_for(dump, "full-mask").tau_p == 0.002


def test_replay_against_its_definitions(dump):
    stapo, justrl = replay(dump, ["stapo", "justrl"])
    silenced = ~stapo.selection.keep_mask
    assert silenced.any() and justrl.selection.keep_mask.all()
    assert (justrl.logit_norm_share, justrl.parameter_norm_share) == (0.0, 0.0)
    # linear in the tokens: kept * gradient = all tokens' gradient - the silenced tokens' gradient
    masked = justrl.gradient * len(silenced) - stapo.gradient * stapo.selection.num_kept
    unmasked = justrl.gradient * len(silenced)
    assert float(masked.norm() / unmasked.norm()) == pytest.approx(stapo.parameter_norm_share, rel=1e-3)
    out = policy_loss(
        dump.batch.stats, select(dump.batch.stats, objective_for(dump, "stapo")), objective_for(dump, "stapo")
    )
    assert stapo.loss == pytest.approx(float(out.numerator.sum()) / stapo.selection.num_kept, rel=1e-4)
    assert cosine(stapo, stapo) == pytest.approx(1.0)
    assert -1 <= cosine(stapo, justrl) < 1
    assert overlap(stapo.selection, stapo.selection) == 1.0
    assert overlap(justrl.selection, justrl.selection) is None


def test_cosine_and_overlap_by_hand():
    one, other, none = (
        SimpleNamespace(gradient=torch.tensor(values)) for values in ([3.0, 4.0], [4.0, 3.0], [0.0, 0.0])
    )
    assert cosine(one, other) == pytest.approx(24 / 25) and cosine(one, none) == cosine(none, none) == 0.0
    a, b = (
        SimpleNamespace(keep_mask=torch.tensor(kept))
        for kept in ([False, False, True, True], [True, False, False, True])
    )
    assert overlap(a, b) == overlap(b, a) == pytest.approx(1 / 3)  # one of the three that either silences


def test_logit_norm_share_by_autograd(dump):
    (stapo,) = replay(dump, ["stapo"])
    objective = objective_for(dump, "justrl")
    everything = select(dump.batch.stats, objective)
    norms = torch.zeros(len(dump.batch.stats.key))
    for micro in dump.policy.split(dump.batch, range(8)):
        logits = dump.policy.logits(micro).detach().requires_grad_()
        log_probs = logits.log_softmax(-1).gather(-1, micro.taken[:, None])[:, 0]
        part = replace(dump.batch.stats.take(micro.tokens), log_probs=log_probs)
        policy_loss(part, everything.take(micro.tokens), objective).numerator.sum().backward()
        norms[micro.tokens] = (logits.grad**2).sum(-1)
    share = norms[~stapo.selection.keep_mask].sum() / norms.sum()
    assert stapo.logit_norm_share == pytest.approx(float(share), rel=1e-3)


def test_sweep_counts_and_names_what_moves(dump):
    rows = sweep(dump, [0.02, 1.0], [0.75, 1.0])
    first = set((~select(dump.batch.stats, objective_for(dump, "stapo")).keep_mask).nonzero().flatten().tolist())
    assert [(r.tau_p, r.q) for r in rows] == [(0.02, 0.75), (0.02, 1.0), (1.0, 0.75), (1.0, 1.0)]
    for row in rows:
        found = select(dump.batch.stats, objective_for(dump, "stapo", tau_p=row.tau_p, q=row.q))
        silenced = set((~found.keep_mask).nonzero().flatten().tolist())
        assert (row.num_silenced, row.masked_share) == (len(silenced), len(silenced) / len(found.keep_mask))
        assert (row.enters, row.leaves) == (tuple(sorted(silenced - first)), tuple(sorted(first - silenced)))
    assert rows[1].num_silenced == rows[1].num_candidates - 1  # all but the one at the maximum
    assert rows[2].num_candidates == int((dump.batch.stats.advantages > 0).sum())


def test_sweep_of_an_objective_without_thresholds_is_refused(dump):
    with pytest.raises(UsageError, match="justrl: expected an objective with the thresholds tau_p and q"):
        sweep(dump, [0.02], [0.75], "justrl")


def test_audit_lists_the_candidates(dump):
    found = audit(dump, "stapo")
    selection = select(dump.batch.stats, objective_for(dump, "stapo"))
    assert {t.token for t in found} == set(selection.candidate_mask.nonzero().flatten().tolist())
    assert [t.prob for t in found] == sorted(t.prob for t in found)
    one = found[0]
    assert one.prob < 0.02 and one.advantage > 0 and one.silenced == (not selection.keep_mask[one.token])
    assert len(one.alternatives) == 5 and one.alternatives[0][1] == max(p for _, p in one.alternatives)


def test_a_token_stands_between_what_came_before_and_after(dump):
    row = max(range(1, 8), key=lambda row: len(dump.batch.rows[row][1]))
    (prompt, response), first = dump.batch.rows[row], dump.batch.starts[row]
    ids, decode = [*prompt, *response], dump.tokenizer.decode
    begins, third = sorted(audit(dump, "stapo", context=2, tokens=[first, first + 2]), key=lambda one: one.token)
    assert (begins.token, third.token) == (first, first + 2)
    assert (begins.before, begins.text) == (decode(prompt[-2:]), decode(response[:1]))
    assert begins.after == decode(response[1:3])
    place = len(prompt) + 2
    assert (third.before, third.text) == (decode(ids[place - 2 : place]), decode(ids[place : place + 1]))
    whole = audit(dump, "stapo", context=10_000, tokens=[first + 2])[0]
    assert (whole.before, whole.after) == (decode(ids[:place]), decode(ids[place + 1 :]))
    for one in (begins, third):
        assert one.prob == pytest.approx(float(dump.batch.stats.log_probs[one.token].exp()))
        assert one.entropy == pytest.approx(float(dump.batch.stats.entropy[one.token]))
        assert one.advantage == pytest.approx(float(dump.batch.row_advantages[row]))
        assert [p for _, p in one.alternatives] == sorted((p for _, p in one.alternatives), reverse=True)


def test_the_commands(folder):
    for arguments, expected in [
        (["replay", "--objectives", "justrl,stapo"], "Cosine of gradients"),
        (["sweep", "--tau-p", "0.02", "--q", "0.5"], "masked share"),
        (["audit", "--limit", "2"], "2 shown"),
    ]:
        done = CliRunner().invoke(cli, [arguments[0], str(folder), *arguments[1:]])
        assert done.exit_code == 0, done.output
        assert expected in done.output
    for wrong in (["replay", str(folder.parent)], ["sweep", str(folder), "--q", "most"]):
        assert isinstance(CliRunner().invoke(cli, wrong).exception, StapoError)


def graded(dump, right):
    """Rollouts as the dump's rows, two groups of four, the first so many of each right."""
    return [
        Rollout(
            group_id=row // 4, problem_id="", index=row % 4, seed=row, prompt_ids=prompt, response_ids=response,
            rollout_log_probs=None, text="", finish_reason="stop", reward=float(row % 4 < right[row // 4]),
        )
        for row, (prompt, response) in enumerate(dump.batch.rows)
    ]  # fmt: skip


def test_each_objective_is_replayed_with_advantages_of_its_own(dump, tmp_path):
    # 1/4 right: R - mean is 3/4 and -1/4; 2/4 right: 1/2 and -1/2. Divided by their std, 1/2 and 0.577, the groups
    # weigh 2 : 1.73, so one gradient is not a multiple of the other.
    centred = torch.tensor([0.75, -0.25, -0.25, -0.25, 0.5, 0.5, -0.5, -0.5])
    scale = torch.tensor([0.5] * 4 + [(1 / 3) ** 0.5] * 4) + 1e-6

    def saved(folder, name, advantages, **more):
        own = replace(dump.batch, row_advantages=advantages)
        about = replace(dump.about, objective={"name": name})
        save_dump(tmp_path / folder, own, dump.policy.model, dump.tokenizer, about, **more)
        return load_dump(tmp_path / folder)

    rollouts = graded(dump, right=(1, 2))
    by_drgrpo = saved("dr-grpo", "dr-grpo", centred, rollouts=rollouts)
    by_stapo = saved("stapo", "stapo", centred / scale, rollouts=rollouts)
    for name in ("dr-grpo", "kl-cov", "stapo"):
        (one,), (other,) = replay(by_drgrpo, [name]), replay(by_stapo, [name])
        torch.testing.assert_close(one.gradient, other.gradient, rtol=1e-4, atol=1e-7)
        assert one.loss == pytest.approx(other.loss, rel=1e-4, abs=1e-7)
    (right,) = replay(by_drgrpo, ["dr-grpo"])  # from the very advantages that the test writes down
    (wrong,) = replay(saved("taken for it", "dr-grpo", centred / scale), ["dr-grpo"])
    assert cosine(right, wrong) < 0.9999 and right.gradient.norm() < 0.6 * wrong.gradient.norm()
    # The commands that show advantages show the objective's own.
    shown = audit(by_stapo, "dr-grpo", tokens=range(len(dump.batch.stats.key)))
    assert {t.advantage for t in shown} == {0.75, -0.25, 0.5, -0.5}

    older = saved("older", "stapo", centred / scale)
    assert replay(older, ["justrl"])[0].gradient.norm() > 0
    for attempt in (lambda: replay(older, ["justrl", "dr-grpo"]), lambda: audit(older, "dr-grpo")):
        said = r"^Dr. GRPO: expected rewards in the dump .*stapo's \(R - mean\) / \(sample std"
        with pytest.raises(StapoError, match=said):
            attempt()


def test_skipped_steps_leave_their_batch(tmp_path, monkeypatch):
    make_base(tmp_path / "base")
    monkeypatch.setattr(run, "grade", grade_by_hash)
    step = run.optimizer_step

    def failing(*args):
        return replace(step(*args), skipped="loss nan")

    monkeypatch.setattr(run, "optimizer_step", failing)
    with pytest.raises(StapoError, match="skipped"):
        run.train(make_config(tmp_path))
    assert len(load_dump(tmp_path / "run" / "skipped" / "iteration-000001-update-1").batch.rows) == 8


def test_stability_names_the_run_that_is_too_short(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"entropy": 0.4}) + "\n")
    done = CliRunner().invoke(cli, ["stability", str(tmp_path)])
    assert f"{tmp_path}: stability: expected at least 10 iterations, got 1" in str(done.exception)


@pytest.mark.parametrize("asked", ["0", "2,3"])
def test_dumps_of_iterations_that_will_not_be_are_refused(tmp_path, asked):
    config = str(Path(__file__).parent.parent / "train" / "configs" / "tiny" / "stapo.yaml")
    done = CliRunner().invoke(cli, ["run", config, "iterations=2", f"out={tmp_path / 'r'}", "--dump-rollouts", asked])
    assert str(done.exception) == f"--dump-rollouts: expected iterations from 1 to 2, got {asked[-1]}"
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("limit", ["0", "-5"])
def test_audit_shows_at_least_one_candidate(tmp_path, limit):
    done = CliRunner().invoke(cli, ["audit", str(tmp_path), "--limit", limit])
    assert done.exit_code == 2 and f"{limit} is not in the range x>=1" in done.output


def test_stability_by_hand():
    half = stability([0.4] * 5 + [0.2] * 5 + [0.4] * 5)
    assert half.score == pytest.approx(2 ** (-0.5))  # off by a factor 2 half of the time
    assert (half.verdict, half.lowest, half.end) == ("stable", 0.2, 0.4)
    assert stability([0.4] * 5 + [1.7] * 5).verdict == "explosion"
    assert stability([0.4] * 5 + [0.0] * 5).score == 0
    with pytest.raises(StapoError, match="at least 10 iterations, got 3"):
        stability([0.1] * 3)


def test_stability_command(tmp_path):
    for name, end in (("flat", 0.4), ("gone", 0.01)):
        (tmp_path / name).mkdir()
        lines = [json.dumps({"entropy": h}) for h in [0.4] * 5 + [end] * 5]
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(cli, ["stability", str(tmp_path / "gone"), str(tmp_path / "flat")])
    rows = [line for line in done.output.splitlines() if str(tmp_path) in line]
    assert "flat" in rows[0] and "stable" in rows[0] and "gone" in rows[1] and "collapse" in rows[1]
