"""The token file of a dump: every response token with its numbers, as the report reads them."""

import pytest
import torch
from click.testing import CliRunner
from train_setup import make_dump

from stapo_bench.presenting.report.tokens import collect_tokens, read_token_file
from stapo_train.cli import cli
from stapo_train.inspect import token_file
from stapo_train.inspect.dump import load_dump
from stapo_train.inspect.replay import objective_for
from stapo_train.inspect.token_file import write_tokens
from stapo_train.objective import select


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_dump(tmp_path_factory.mktemp("run"), 1)


def test_the_file_holds_the_mask_and_each_token_s_numbers(folder):
    dump = load_dump(folder)
    header, responses = read_token_file(write_tokens(dump, "stapo", folder))
    selection = select(dump.batch.stats, objective_for(dump, "stapo"))
    assert header["objective"] == "stapo"
    assert header["thresholds"]["tau_h"] == pytest.approx(selection.thresholds["tau_h"])
    assert len(responses) == len(dump.batch.rows)
    marks = "".join(response["mark"] for response in responses)
    assert marks.count("s") == int((~selection.keep_mask).sum()) > 0
    assert len(marks) - marks.count(".") == selection.num_candidates
    silenced = [response["mark"].count("s") for response in responses]
    assert silenced == sorted(silenced, reverse=True)
    for response in responses:
        for text, prob, top in zip(response["text"], response["prob"], response["top"], strict=True):
            likeliest = [p for _, p in top]
            assert len(top) == 5 and likeliest == sorted(likeliest, reverse=True) and sum(likeliest) <= 1.001
            # The token taken is among the likeliest with its own probability, or less likely than all of them.
            assert prob <= likeliest[0] * 1.001
            assert [text, pytest.approx(prob, rel=2e-3)] in [list(pair) for pair in top] or prob <= likeliest[
                -1
            ] * 1.001


def test_the_numbers_are_those_of_a_plain_forward_pass(folder):
    dump = load_dump(folder)
    _, responses = read_token_file(write_tokens(dump, "stapo", folder))
    found = responses[0]
    decode = dump.tokenizer.decode
    prompt, response = next(row for row in dump.batch.rows if [decode([t]) for t in row[1]] == found["text"])
    assert decode(prompt) == found["prompt"]
    with torch.no_grad():
        logits = dump.policy.model(input_ids=torch.tensor([prompt + response])).logits[0]
    log_probs = (logits[len(prompt) - 1 : -1] / dump.about.temperature).log_softmax(-1)
    taken = log_probs.gather(-1, torch.tensor(response)[:, None])[:, 0].exp().tolist()
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    assert found["prob"] == pytest.approx(taken, rel=2e-3)
    assert found["entropy"] == pytest.approx(entropy.tolist(), rel=2e-3, abs=1e-5)


def test_a_large_mini_batch_keeps_the_responses_with_most_silenced_tokens(folder, monkeypatch):
    dump = load_dump(folder)
    _, everything = read_token_file(write_tokens(dump, "stapo", folder))
    monkeypatch.setattr(token_file, "MAX_RESPONSES", 3)
    _, kept = read_token_file(write_tokens(dump, "stapo", folder))
    assert kept == everything[:3]


def test_audit_writes_it_for_the_report(folder):
    (folder / "tokens.jsonl").unlink(missing_ok=True)
    done = CliRunner().invoke(cli, ["audit", str(folder), "--tokens"])
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"written: {folder / 'tokens.jsonl'}\n")
    found, notes = collect_tokens([folder.parent.parent])
    assert notes == [] and found.index[0]["name"] == "run/iteration-000001"
