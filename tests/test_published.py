"""The published tables: faithful to themselves, and every known contradiction found again by arithmetic."""

import dataclasses
import math

import pytest
import yaml

from stapo_bench.analysis.published import Protocol, find_inconsistencies, load_facts, load_published, published_names
from stapo_bench.analysis.relative_gain import headline, relative_gains
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import published_rows
from stapo_bench.records import Gold, Problem
from stapo_bench.tasks import resource_dir
from stapo_bench.tasks.prompts import render_question

TABLES = [
    "stapo_v1", "ar_lopti", "dapo", "deepscaler", "deepseek_r1", "dr_grpo", "justrl", "light_r1",
    "lp_reg", "open_r1", "open_r1_greedy", "open_reasoner_zero", "polaris", "prime", "prorl",
    "qwen25_math", "qwen3", "simplerl_zoo", "skywork_or1", "sober_look", "stare", "stare_cited", "taco",
    "twenty_entropy",
]  # fmt: skip


def averages(regime, average=lambda row: row.average):
    found = {}
    for row in load_published("stapo_v1").rows:
        if row.regime == regime:
            found.setdefault(row.model, {})[row.method] = average(row)
    return found


def test_tables_with_rows_and_the_papers_own_first():
    assert published_names() == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_listed_inconsistencies_are_exactly_those_found(name):
    table = load_published(name)
    assert find_inconsistencies(table) == list(table.inconsistencies)


def test_every_recipe_says_where_and_when_it_was_read():
    recipes = [load_published(name) for name in TABLES]
    looked_at = [table for table in recipes if table.looked_at]
    assert len(looked_at) == 20
    for table in looked_at:
        assert table.source and table.confidence and table.protocol != Protocol()
        assert set(table.samples) | set(table.num_problems) <= {task for row in table.rows for task in row.scores}


def test_a_protocol_is_that_of_the_row():
    table = load_published("stapo_v1")
    by_regime = {row.regime: table.protocol_of(row) for row in table.rows}
    assert (by_regime["training"].temperature, by_regime["justrl"].temperature) == (1.0, 0.7)
    assert by_regime["justrl"].top_p == 0.9 and by_regime["justrl"].max_new_tokens is None
    justrl = load_published("justrl")
    assert justrl.protocol_of(justrl.rows[1]) == justrl.protocol
    assert justrl.protocol.max_new_tokens == 31744


def test_a_prompt_is_written_as_in_a_task_file():
    prompts = [prompt for name in TABLES if (prompt := load_published(name).protocol.prompt)]
    assert len(prompts) >= 8
    problem = Problem(task="t", problem_id="p", question="1+1?", gold=Gold(answer="2"))
    assert all("1+1?" in render_question(prompt, problem) for prompt in prompts)


def test_cells_that_are_not_printed_are_not_there(tmp_path, monkeypatch):
    (raw,) = (
        r for r in yaml.safe_load_all((resource_dir("published") / "recipes.yaml").read_text()) if r["table"] == "dapo"
    )
    raw["rows"].append({"model": "m", "method": "n", "regime": None, "scores": [None], "average": None})
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump({**raw, "table": "odd"}))
    monkeypatch.setattr("stapo_bench.analysis.published.resource_dir", lambda _: tmp_path)
    row = load_published("odd").rows[1]
    assert row.scores == {} and math.isnan(row.average)
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump({**raw, "table": "stapo_v1"}))
    assert published_rows()[1].cells == {}
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump({**raw, "table": "odd", "protocol": {"heat": 1}}))
    with pytest.raises(StapoError, match=r"published table 'odd': protocol: expected .*temperature.*, got heat"):
        load_published("odd")


def test_the_known_ones_are_among_them():
    listed = load_published("stapo_v1").inconsistencies
    average = {"what": "average", "model": "Qwen3-14B-Base", "method": "STAPO", "regime": "training"}
    assert {**average, "printed": 64.38, "recomputed": 64.905} in listed
    assert {"what": "headline", "regime": "justrl", "printed": 3.69, "recomputed": 3.71} in listed


def test_a_changed_cell_is_found():
    table = load_published("twenty_entropy")
    row = table.rows[0]
    changed = dataclasses.replace(row, scores={**row.scores, "aime24": row.scores["aime24"] + 0.01})
    what = [item["what"] for item in find_inconsistencies(dataclasses.replace(table, rows=(changed,)))]
    assert what == ["average", "aime24"]


def test_headline_of_the_training_regime_rests_on_the_printed_average():
    # 38.18 / 33.64, 58.76 / 57.63, 64.38 / 60.77: gains of 13.50, 1.96 and 5.94 percent
    gains = relative_gains(averages("training"))
    assert [round(100 * gain, 2) for gain in gains.values()] == [13.5, 1.96, 5.94]
    assert round(100 * headline(averages("training")), 2) == 7.13
    from_cells = averages("training", lambda row: sum(row.scores.values()) / 6)
    assert round(100 * headline(from_cells), 2) == 7.41


def test_headline_of_the_justrl_regime_is_not_the_printed_one():
    # 36.72 / 34.90, 59.92 / 57.83, 68.66 / 67.11: (5.215 + 3.614 + 2.310) / 3 = 3.71, printed 3.69
    assert round(100 * headline(averages("justrl")), 2) == 3.71


def test_derived_averages_of_the_later_versions_follow_from_their_assumption():
    stated = load_published("stapo_v4").headline
    gains = stated["printed_per_model"]["training"]
    for model, derived in stated["derived"]["average"]["training"].items():
        strongest = max(value for name, value in averages("training")[model].items() if name != "STAPO")
        assert round(100 * strongest * (1 + gains[model] / 100), 2) == derived
    assert round(sum(gains.values()) / 3, 2) == stated["printed"]["training"]  # 18.49, 5.78, 10.20


def test_scores_are_fractions_and_the_paper_has_four_methods_by_two_regimes_by_three_models():
    rows = load_published("stapo_v1").rows
    assert len({(row.model, row.method, row.regime) for row in rows}) == len(rows) == 24
    assert all(0 < score < 1 for row in rows for score in row.scores.values())


def test_facts_hold_the_constants_of_the_rule():
    rule = load_facts("stapo_facts")["rule"]
    assert (rule["v4-v5"]["tau_p"], rule["v4-v5"]["q"], rule["v1-v3"]["q"]) == (0.002, 0.75, 0.8)
    assert load_facts("method_constants")["methods"]["20-Entropy"]["rho"] == 0.2


def test_the_advantages_are_those_of_the_sample_standard_deviation():
    for successes, printed in load_facts("stapo_facts")["advantages_by_successes_of_8_std_ddof_1"].items():
        mean = successes / 8
        std = (8 * mean * (1 - mean) / 7) ** 0.5  # ddof = 1
        assert round((1 - mean) / std, 4) == printed


def test_unknown_tables_and_files_without_a_table_are_named():
    with pytest.raises(UsageError, match="unknown published table 'stapo'"):
        load_published("stapo")
    with pytest.raises(UsageError, match="not a table"):
        load_published("stapo_facts")
