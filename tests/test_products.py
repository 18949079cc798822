"""The task that a calculator is for: its problems, what the base model reads of it, and the page's section on calls."""

import itertools
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tool_setup import Clerk, run, tool_options

from stapo_bench.errors import UsageError
from stapo_bench.statistics import t_quantile
from stapo_bench.tasks import get_tool, load_problems, load_task, products, task_names
from stapo_bench.tasks.calculator import calculate
from stapo_bench.tasks.products import Product, rows, split_of
from stapo_train.data import load_problems as training_problems
from stapo_train.data_config import DataConfig
from stapo_train.experiments.calls import calls, calls_of
from stapo_train.tiny import pretrain
from stapo_train.tiny.batches import NO_TARGET, ROW_LENGTH, encode, pack
from stapo_train.tiny.products import worked_example


def test_problems_are_what_the_calculator_says_and_no_split_shares_one():
    splits = {split: rows(split, 0, 150) for split in ("task", "train", "pretrain")}
    for split, found in splits.items():
        assert len({row["problem"] for row in found}) == 150
        for row in found:
            assert split_of(row["problem"]) == split
            assert calculate(re.fullmatch(r"What is (.*)\?", row["problem"])[1]) == row["answer"]
    assert rows("task", 1, 5) != rows("task", 0, 5) == splits["task"][:5]
    assert (Product(12, 12, -99).answer, Product(98, 98, 99).answer) == (45, 9703)


def test_more_products_than_there_are_are_refused(monkeypatch):
    few = [Product(12, 12, 11), Product(12, 13, 11), Product(12, 12, 11)]
    monkeypatch.setattr(products, "draw", lambda rng, split: itertools.cycle(few))
    assert len(rows("train", 0, 2)) == 2
    with pytest.raises(UsageError, match="expected 3 distinct products, found 2; ask for fewer"):
        rows("train", 0, 3)


def test_both_tasks_ask_the_same_problems_and_one_has_the_calculator():
    assert task_names("tiny-tools") == ["tiny_tools", "tiny_unaided"]
    aided, unaided = map(load_task, task_names("tiny-tools"))
    assert (aided.tool, unaided.tool) == ("calculator", None)
    asked = [[(p.question, p.gold.answer) for p in load_problems(task)] for task in (aided, unaided)]
    assert asked[0] == asked[1] == [(row["problem"], row["answer"]) for row in rows("task", 0, 100)]


def test_what_is_trained_on_is_in_no_task():
    config = DataConfig(source="products", count=40, question="{{problem}}\n")
    found = training_problems(config, seed=3)
    assert [(p.question, p.gold.answer) for p in found] == [(r["problem"], r["answer"]) for r in rows("train", 3, 40)]


def test_worked_examples_call_as_an_engine_would_answer():
    tool, examples = get_tool("calculator"), [worked_example(0, index) for index in range(1500)]
    called = [example for example in examples if "<output>" in example.solution]
    assert 0.3 < len(called) / len(examples) < 0.4
    right = {True: [], False: []}
    for example in examples:
        assert split_of(example.prompt.strip()) == "pretrain"
        value = calculate(re.fullmatch(r"What is (.*)\?\n", example.prompt)[1])
        right["<output>" in example.solution].append(example.solution.endswith(f"\\boxed{{{value}}}"))
        for place in re.finditer(r"<output>.*?</output>", example.solution):
            assert tool.answer(example.solution[: place.start()]) == place[0]
    assert 0.75 < np.mean(right[True]) < 0.95 and not any(right[False])
    two = sum(example.solution.count("<output>") == 2 for example in called) / len(called)
    assert 0.25 < two < 0.4


def test_what_the_calculator_says_is_no_target_and_is_encoded_by_itself():
    config = pretrain.PretrainConfig(out="", steps=1, text="products")
    tokenizer = pretrain.make_tokenizer(config)
    examples = [worked_example(0, index) for index in range(300)]
    documents = encode(tokenizer, examples)
    for example, document in zip(examples, documents, strict=True):
        assert tokenizer.decode(document.solution) == example.solution + tokenizer.eos_token
        assert len(document) < ROW_LENGTH
        outputs = re.findall(r"<output>.*?</output>", example.solution)
        told = [document.solution[place] for place in sorted(document.told)]
        assert told == [token for output in outputs for token in tokenizer(output)["input_ids"]]
        kept = [token for token in document.targets if token != NO_TARGET]
        assert tokenizer.decode(kept) == re.sub(r"<output>.*?</output>", "", example.solution) + tokenizer.eos_token
    document = next(document for document in documents if document.told)
    batch = pack([document], tokenizer.pad_token_id)
    begin = len(document.prompt) - 1
    assert batch.targets[0, begin : begin + len(document.solution)].tolist() == document.targets


def test_calls_are_counted_by_task(tmp_path):
    options = tool_options(tmp_path)
    run(options, Clerk())
    (found,) = calls_of(options.out).values()
    # Two calls each, whose outputs are 0 1, 3 4, 6 7, 9 10, 12 13 with 17 characters around each.
    assert (found.per_reply, found.share) == (2.0, 1.0)
    assert found.told == pytest.approx((36 + 36 + 36 + 37 + 38) / 5)
    run(replace(options, out=tmp_path / "none"), Clerk(num_calls=0))
    (none,) = calls_of(tmp_path / "none").values()
    assert (none.per_reply, none.share, none.told) == (0.0, 0.0, 0.0)


def test_the_section_has_means_and_intervals_over_seeds(tmp_path):
    options = tool_options(tmp_path)
    runs = {}
    for seed, number in enumerate((1, 2, 3)):
        runs[seed] = tmp_path / f"run{seed}"
        run(replace(options, out=runs[seed], seed=seed), Clerk(num_calls=number))
    tasks = [[SimpleNamespace(title="With", value=value)] for value in (0.5, 0.6, 0.7)]
    found = SimpleNamespace(
        scores={"training": {"A": [SimpleNamespace(tasks=one) for one in tasks]}},
        seeds=[0, 1, 2],
        folder=lambda variant, seed, decoding: runs[seed],
    )
    section = calls(found, tmp_path)
    # 1, 2, 3 calls: mean 2, standard deviation 1, so 2 ± t(2) / sqrt(3); the scores' is a tenth of that
    half = t_quantile(0.95, 2) / 3**0.5
    score, number = f"60.0 [{60 - 10 * half:.1f}, {60 + 10 * half:.1f}]", f"2.00 [{2 - half:.2f}, {2 + half:.2f}]"
    assert f"| A | {score} | {number} |" in section.text
    assert section.answers == [f"A: with {score.replace(' ', ' % ', 1)}; {number} calls per reply."]
    assert "| 100.0 [–] |" in section.text  # every reply of every seed calls
    found.folder = lambda variant, seed, decoding: runs[1]
    assert f"| A | {score} | 2.00 [–] | 100.0 [–] |" in calls(found, tmp_path).text  # nothing is known of its error
