"""What the tiny base reads: its tokenizer, documents packed into rows, worked puzzles."""

import itertools
import random
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_bench.tasks import kk, kk_brief, tiny
from stapo_train.tiny import knights
from stapo_train.tiny import pretrain as pretraining
from stapo_train.tiny import problems as tiny_data
from stapo_train.tiny.batches import NO_TARGET, ROW_LENGTH, Document, assign_rows, encode, pack
from stapo_train.tiny.pretrain import PretrainConfig
from stapo_train.tiny.problems import worked_example
from stapo_train.tiny.texts import TEXTS


@pytest.fixture(scope="module")
def tokenizer():
    return pretraining.make_tokenizer(PretrainConfig(out="", steps=1))


# --- tokenizer --------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_text_survives_the_tokenizer(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert max(ids, default=0) < len(tokenizer) == 384


def test_digits_and_newlines_stand_alone_and_boxed_endings_are_one_token(tokenizer):
    tokens = tokenizer.get_vocab()
    assert not [token for token in tokens if len(token) > 1 and any(c.isdigit() for c in token)]
    for closing, _ in tiny_data.CLOSINGS[:3]:
        assert len(tokenizer(closing)["input_ids"]) == 1, closing
    assert len(tokenizer("4\n7")["input_ids"]) == 3


def test_prompt_and_solution_are_encoded_the_same_together_and_apart(tokenizer):
    for index in range(200):
        example = worked_example(0, index)
        apart = [tokenizer(text)["input_ids"] for text in (example.prompt, example.solution)]
        assert tokenizer(example.prompt + example.solution)["input_ids"] == apart[0] + apart[1]


def test_the_tokenizer_is_the_same_every_time():
    config = PretrainConfig(out="", steps=1)
    first, second = (pretraining.make_tokenizer(config).backend_tokenizer.to_str() for _ in range(2))
    assert first == second


# --- packing ----------------------------------------------------------------------------------------------------------


def test_pack_lays_out_two_documents_by_hand():
    long = Document(prompt=[1, 2], solution=[3, 4])
    short = Document(prompt=[5], solution=[6])
    batch = pack([short, long], pad_id=9, row_length=7)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4, 5, 6, 9]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 0]]
    # the token before each solution token predicts it; prompts, ends and padding predict nothing
    n = NO_TARGET
    assert batch.targets.tolist() == [[n, 3, 4, n, 6, n, n]]
    sees = batch.attention_mask[0, 0].int().tolist()
    assert sees[3] == [1, 1, 1, 1, 0, 0, 0]
    assert sees[4] == [0, 0, 0, 0, 1, 0, 0]
    assert sees[5] == [0, 0, 0, 0, 1, 1, 0]


@given(st.lists(st.integers(2, 20), min_size=1, max_size=40))
def test_rows_hold_every_document_once_and_never_overflow(sizes):
    documents = [Document(prompt=[0], solution=[0] * (size - 1)) for size in sizes]
    rows = assign_rows(documents, row_length=20)
    assert sorted(len(document) for row in rows for document in row) == sorted(sizes)
    assert all(sum(map(len, row)) <= 20 for row in rows)


def test_a_packed_loss_is_that_of_the_documents_alone(tokenizer):
    torch.manual_seed(0)
    config = PretrainConfig(out="", steps=1, num_layers=2)
    model = pretraining.make_model(config, tokenizer)
    documents = encode(tokenizer, [worked_example(0, index) for index in range(6)])
    packed = pretraining.batch_loss(model, pack(documents, tokenizer.pad_token_id))
    total, count = 0.0, 0
    for document in documents:
        ids = torch.tensor([document.prompt + document.solution])
        log_probs = model(input_ids=ids).logits[0].log_softmax(-1)
        for place in range(len(document.prompt), len(document)):
            total -= log_probs[place - 1, ids[0, place]].item()
            count += 1
    assert packed.item() == pytest.approx(total / count, rel=1e-5)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_kind_fits_a_row(tokenizer, kind):
    rng = random.Random(0)
    problems = [tiny.KINDS[kind](rng) for _ in range(100)]
    examples = [
        tiny_data.Example(prompt=tiny_data.prompt_text(p), solution=tiny_data.worked_solution(rng, p)) for p in problems
    ]
    assert max(map(len, encode(tokenizer, examples))) <= ROW_LENGTH


# --- knights and knaves -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_knights():
    return pretraining.make_tokenizer(PretrainConfig(out="", text="knights", steps=1))


def test_letters_of_people_stand_alone_and_every_worked_puzzle_fits_a_row(of_knights):
    joined = [token for token in of_knights.get_vocab() if len(token) > 1 and re.search(r"[A-H](?![a-z])|[+-]", token)]
    assert joined == []
    examples = [knights.worked_example(0, index) for index in range(400)]
    documents = encode(of_knights, examples)
    assert max(map(len, documents)) <= TEXTS["knights"].row_length
    for example, document in zip(examples, documents, strict=True):
        assert of_knights(example.prompt + example.solution)["input_ids"] == document.prompt + document.solution[:-1]


def test_a_worked_puzzle_without_mistakes_checks_guesses_until_one_fits(monkeypatch):
    for rate in ("MISTAKE_RATE", "SLIP_RATE", "TYPO_RATE", "DIRECT_SHARE"):
        monkeypatch.setattr(knights, rate, 0)
    rng, num_guesses = random.Random(1), []
    for puzzle in itertools.islice(kk.draw(rng, "train", 3), 200):
        text = knights.worked_solution(rng, puzzle)
        parts = re.split(r"((?:[A-C][+-]){3}): ", text)[1:]  # only a guess has three signs in a row
        guesses = list(zip(parts[::2], parts[1::2], strict=True))
        num_guesses.append(len(guesses))
        for place, (guess, checks) in enumerate(guesses):
            assumed = tuple(sign == "+" for sign in guess[1::2])
            truths = [claim_is_true(claim, assumed) for claim in puzzle.claims]
            # A person fits who is a knight and speaks the truth, or neither.
            fits = [truth == kind for truth, kind in zip(truths, assumed, strict=True)]
            shown = re.findall(r"([A-C]): ([^=]*) = ([+-]) (yes|no)", checks)
            upto = 3 if all(fits) else fits.index(False) + 1
            assert [(who, sign, word) for who, _, sign, word in shown] == [
                (letter, "+" if truth else "-", "yes" if fit else "no")
                for letter, truth, fit in zip("ABC", truths, fits, strict=True)
            ][:upto]
            for (_, statement, _, _), claim in zip(shown, puzzle.claims, strict=False):
                assert re.sub("[+-]", "", statement) == kk_brief.formula(claim)
                assert all((assumed["ABC".index(x[0])]) == (x[1] == "+") for x in re.findall("[A-C][+-]", statement))
            assert all(fits) == (assumed == puzzle.knights)
            assert not all(fits) or place == len(guesses) - 1
        boxed = ", ".join(guesses[-1][0][i] for i in (0, 2, 4) if guesses[-1][0][i + 1] == "+")
        assert text.endswith(rf"\boxed{{{boxed}}}")
    assert set(num_guesses) == {1, 2, 3}


def claim_is_true(claim: kk.Claim, assumed: tuple[bool, ...]) -> bool:
    if isinstance(claim, kk.Kind):
        return assumed[claim.person] == claim.is_knight
    left, right = claim_is_true(claim.left, assumed), claim_is_true(claim.right, assumed)
    return {"and": left and right, "or": left or right, "if": right or not left, "iff": left == right}[claim.word]


def test_worked_puzzles_err_where_checks_do():
    shares = {}
    for rate in (0.0, 0.3):
        rng = random.Random(2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(knights, "MISTAKE_RATE", rate)
            patch.setattr(knights, "DIRECT_SHARE", 0)
            patch.setattr(knights, "MAX_GUESSES", 40)
            made = [(p, knights.worked_solution(rng, p)) for p in itertools.islice(kk.draw(rng, "train", 4), 200)]
        shares[rate] = sum(kk_brief.words(p)[1] == text[text.index("{") + 1 : -1] for p, text in made) / 200
    assert shares[0.0] == 1 and 0.3 < shares[0.3] < 0.9
