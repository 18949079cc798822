"""The experiments' look at tokens: steps of a solution, which of them are silenced, norms of gradients."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stapo_train.experiments import arithmetic, gradients, silenced
from stapo_train.experiments.section import in_points


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("First, 3 + 4 = 7, then 7 * 2 = 14. The answer is \\boxed{14}", [True, True]),
        ("We get 12 - 5 = 8, so 8 + 1 = 9", [False, True]),  # the second follows from the first and holds
        ("k84 / 7 = 12, next 85 mod 7 = 1", [True, True]),  # a stray letter is not part of a number
        ("85 / 7 = 12", [False]),  # must be exact
        ("5 / 0 = 0, 5 mod 0 = 5", [False, False]),
        ("3 - 5 = 2", [False]),
        ("17, then 42. The answer is \\boxed{42}", []),  # totals alone: nothing to check
        ("103 + 4 = 7", [False]),  # not 3 + 4 = 7
        ("3 + 4 = 71", [False]),
        ("3+4 = 7, 3 + x = 7, 3 + 4 =", []),
    ],
)
def test_steps_of_hand_written_solutions(text, right):
    found = arithmetic.written_steps(text)
    assert [step.right for step in found] == right
    assert all(" = " in text[step.start : step.end] for step in found)


def test_worked_solutions_hold_but_for_their_planted_errors():
    from stapo_train.tiny.problems import worked_example

    written = [step for i in range(400) for step in arithmetic.written_steps(worked_example(0, i).solution)]
    # The style with steps writes a mistake in 5 % of them and a slip in 0.8 %: 5.8 % of about 500.
    assert len(written) > 300
    assert 0.03 < np.mean([not step.right for step in written]) < 0.09


def test_stray_letters_are_found():
    text = "First, k3 + 4 = 7, then 7 * 2 = 14, so x = 3 and a1b. Hence \\boxed{k14}"
    assert [text[i : i + 2] for i in arithmetic.stray_letters(text)] == ["k3", "a1"]
    assert arithmetic.stray_letters("q17, then 42") == [0]


def test_silenced_tokens_are_counted_by_hand():
    texts = ["So ", "3", " + ", "4", " = ", "8", ", then ", "k", "8 ", "* 2 = 1", "6"]
    #               |-------- wrong ---------|         stray ^  |----- right ----|
    here = [False] * 11
    hit = [*here[:5], True, True, True, *here[8:]]  # the 8, which is wrong, ", then " and the stray letter
    candidates = [True, *hit[1:]]  # and "So ", which is kept
    right = silenced.Rollout(texts=["1 + 1 = 2"], candidate=[False], silenced=[False])
    found = silenced.tally([silenced.Rollout(texts=texts, candidate=candidates, silenced=hit), right])
    assert found.whole == silenced.Places(count=2, hit=1, tokens=12, silenced=3, kept=1)
    assert found.wrong_steps == silenced.Places(count=1, hit=1, tokens=5, silenced=1, kept=0)
    assert found.right_steps == silenced.Places(count=2, hit=0, tokens=4, silenced=0, kept=0)
    assert found.letters == silenced.Places(count=1, hit=1, tokens=1, silenced=1, kept=0)
    assert dict(found.silenced_words) == {"8": 1, ", then ": 1, "k": 1} and dict(found.kept_words) == {"So ": 1}
    # Of three silenced tokens one lies in a wrong step and one is a stray letter; of four candidates, the same two.
    assert found.lift(found.wrong_steps) == found.lift(found.letters) == pytest.approx(1 / 3 - 1 / 4)
    nothing = silenced.tally([right])
    assert np.isnan(nothing.lift(nothing.wrong_steps))
    assert silenced.total([found.whole, nothing.whole]).tokens == 13
    # Lifts 0.1 and 0.3: mean 0.2, standard error 0.1, t_0.975(1) = 12.706; a seed without any is left out.
    assert in_points(silenced._change([0.1, 0.3, math.nan])) == "+20.0 [-107.1, +147.1]"
    assert in_points(silenced._change([0.1, math.nan])) == "–"
    choice = silenced._change([0.1, 0.3])
    told = silenced._answer("A", "STAPO", [found], choice, 0.051)
    shares = (
        "33.3 % of the silenced tokens lie in steps that are wrong although the answer is right, 25.0 % of the candi"
    )
    assert told.startswith(f"STAPO on A's rollouts: {shares}")
    assert "dates, 41.7 % of all tokens. Choosing among the candidates by entropy is not told apart" in told
    assert "by lot (+20.0 [-107.1, +147.1] points, p 0.051 by Holm, 1 seeds)" in told
    letters = "1 of 1 stray letters (33.3 % of the silenced tokens, 25.0 % of the candidates)."
    assert told.endswith(f"It hits 1 of 1 such steps and {letters}")
    assert "is told apart from drawing by lot" in silenced._answer("A", "STAPO", [found], choice, 0.049)


def hand_dump(advantages, logits):
    """One prompt token and one response token (number 0) per rollout, over four tokens; ratio 1."""
    import torch

    from stapo_train.batch import collate, micro_batches
    from stapo_train.inspect.dump import DumpedRun
    from stapo_train.train_records import Rollout

    rollouts = [
        Rollout(
            group_id=0, problem_id="p", index=i, seed=i, prompt_ids=(1,), response_ids=(0,), rollout_log_probs=None,
            text="", finish_reason="stop",
        )
        for i in range(len(advantages))
    ]  # fmt: skip
    batch = collate(rollouts, np.array(advantages), torch.float32, torch.device("cpu"))
    table = torch.tensor(logits)
    log_probs, distribution = table.log_softmax(-1)[:, 0], table.softmax(-1)
    entropy = -(distribution * distribution.log()).sum(-1)
    stats = replace(batch.stats, log_probs=log_probs, old_log_probs=log_probs, entropy=entropy)
    policy = SimpleNamespace(
        split=lambda batch, rows: micro_batches(batch, rows, 100, torch.device("cpu")),
        logits=lambda micro: table[micro.tokens],
        temperature=1.0,
        model=SimpleNamespace(config=SimpleNamespace(vocab_size=4)),
    )
    about = DumpedRun(objective={"name": "stapo", "tau_p": 0.5}, seed=0, max_new_tokens=8, temperature=1.0)
    return SimpleNamespace(batch=replace(batch, stats=stats), policy=policy, about=about)


def test_gradient_norms_by_hand(monkeypatch, tmp_path):
    # Uniform: pi = 1/4, S = 1/4, H = ln 4: 1 - 1/2 + 1/4 = 0.75, and both bounds meet there, times A^2.
    # Probabilities 0.4, 0.2, 0.2, 0.2: S = 0.28, 1 - 0.8 + 0.28 = 0.48. The rollout with A = 0 has no gradient.
    uniform, peaked = [0.0] * 4, [math.log(2), 0.0, 0.0, 0.0]
    dump = hand_dump([1.0, -2.0, 0.0, 1.0], [uniform, uniform, uniform, peaked])
    monkeypatch.setattr("stapo_train.inspect.dump.load_dump", lambda folder: dump)
    found = gradients.read_gradients(Path())
    order = np.argsort(found.measured)
    assert found.measured[order] == pytest.approx([0.48, 0.75, 3.0], rel=1e-6)
    assert found.identity[order] == pytest.approx([0.48, 0.75, 3.0], rel=1e-6)
    assert found.low[order][1:] == pytest.approx([0.75, 3.0], rel=1e-6)
    assert found.high[order][1:] == pytest.approx([0.75, 3.0], rel=1e-6)
    entropy = -(0.4 * math.log(0.4) + 0.6 * math.log(0.2))
    assert found.low[order][0] == pytest.approx(0.2 + math.exp(-entropy), rel=1e-6)
    assert found.high[order][0] == pytest.approx(1.2 - 0.75 * entropy**2 / math.log(4) ** 2, rel=1e-6)
    # The peaked one is silenced (A > 0, pi < 0.5, the lowest entropy of two candidates), and measured all the same.
    assert found.deviation.max() < 1e-12 and found.outside.max() < 1e-12
    gradients.draw(found, tmp_path / "bounds.svg")
    assert b"<svg" in (tmp_path / "bounds.svg").read_bytes()
    # What lies elsewhere is seen: relative to w^2.
    off = replace(found, identity=found.identity + 0.4 * (found.measured > 1), high=found.low - 0.1)
    assert off.deviation.max() == pytest.approx(0.1) and off.outside.max() > 0.1
    found = replace(found, is_sure=found.entropy < 1.35)
    # Norms sqrt(0.75) and sqrt(3): mean 1.299.
    assert gradients._quadrant([found], False, False) == "2 | 1.299 | 1.299 | 1.299"
    assert gradients._quadrant([found], True, True) == "0 | – | – | –"
    # H = ln 2 over 4 tokens: e^-H = 0.5, 1 - 0.75 (ln 2 / ln 4)^2 = 0.8125; S = 0.625 is 0.4 of the way.
    between = replace(
        found, weight=np.ones(1), low=np.array([0.5]), high=np.array([0.8125]), identity=np.array([0.625])
    )
    assert gradients._gap(between) == pytest.approx(0.4)


def test_the_silenced_tokens_of_an_experiment_in_rows_and_sentences(monkeypatch, tmp_path):
    # "3 + 4 = 8" is wrong; of its tokens the mask takes the 8, of all others none, and "So " is a candidate that it
    # leaves: two candidates, one silenced token. The looser mask takes both, the others none.
    texts = ["So ", "3", " + ", "4", " = ", "8"]
    here = [False] * 6
    wrong, both = [*here[:5], True], [True, *here[1:5], True]
    takes = {"STAPO": wrong, "STAPO, tau_p 0.05": both}
    rollouts = {
        mask: [silenced.Rollout(texts=texts, candidate=both, silenced=takes.get(mask, here))] for mask in silenced.MASKS
    }
    for seed in (1, 2):
        for iteration in ("02", "10"):
            (tmp_path / f"A{seed}" / "dumps" / f"iteration-{iteration}").mkdir(parents=True)
            (tmp_path / f"A{seed}" / "dumps" / f"iteration-{iteration}" / "dump.json").write_text("")
    made = [SimpleNamespace(variant="A", folder=tmp_path / f"A{seed}") for seed in (1, 2)]
    assert [dump.name for dump in silenced.dumps(made[0].folder)] == ["iteration-02", "iteration-10"]
    monkeypatch.setattr(silenced, "read_rollouts", lambda dump: rollouts)
    shares = {"A1": [0.01, 0.03], "A2": [0.0, 0.02]}  # 2 % and 1 %
    monkeypatch.setattr(
        silenced, "read_training", lambda folder: SimpleNamespace(column=lambda name: shares[folder.name])
    )
    found = silenced.spurious(SimpleNamespace(variants=["A", "B"], trainings=made), tmp_path)
    assert found.answers[0] == "A silences 1.500 % of all response tokens over training (1.000 to 2.000 % by seed)."
    assert len(found.answers) == 1 + len(silenced.MASKS)
    assert found.answers[2] == "STAPO (v1-v3) on A's rollouts: no token is silenced."
    # Two seeds with two dumps each: 24 tokens, 20 of them in the four wrong steps; 8 candidates, 4 of them there.
    rows = [line for line in found.text.splitlines() if line.startswith("| A |")]
    assert rows[0] == (
        "| A | STAPO | 24 | 8 | 4 | 83.3 %, 50.0 %, 100.0 % | +50.0 [–] "
        "| 0.0 %, 0.0 %, 0.0 % | 0.0 [–] | 4 of 4 | 0 of 0 |"
    )
    assert rows[1].endswith("| 24 | 8 | 0 | 83.3 %, 50.0 %, – | – | 0.0 %, 0.0 %, – | – | 0 of 4 | 0 of 0 |")
    assert "| A | STAPO, tau_p 0.05 | 24 | 8 | 8 | 83.3 %, 50.0 %, 50.0 % | 0.0 [–] |" in rows[2]
    columns = found.text.splitlines()[4:6]
    assert {line.count("|") for line in (*columns, *rows)} == {12}
    words = found.text.partition("Most frequent texts:\n\n")[2].splitlines()
    assert words[:3] == [
        "- A, STAPO, silenced: `'8'` 4", "- A, STAPO, kept: `'So '` 4", "- A, STAPO (v1-v3), silenced: none",
    ]  # fmt: skip
    nothing = silenced.spurious(SimpleNamespace(variants=["B"], trainings=[]), tmp_path)
    assert not nothing.answers and nothing.text.endswith("No rollout with a positive advantage was kept.")


def test_the_words_shown_are_the_most_frequent_ones():
    once = [chr(ord("a") + i) for i in range(13)]
    tallies = [silenced.Tally(kept_words=Counter([*once, "m"])), silenced.Tally(kept_words=Counter(["m", "l"]))]
    shown = ", ".join(f"`{letter!r}` 1" for letter in once[:10])  # of those seen once the first by letters
    assert silenced._words("A", "STAPO", "kept", tallies) == f"- A, STAPO, kept: `'m'` 3, `'l'` 2, {shown}"
