"""Decoding: presets as data, settings of one's own, and what a run says of them."""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

import pytest
from cli_setup import one_line
from fake_server import PARAMS, make_requests, serving
from test_promises import functions_in

from stapo_bench.engines import REGIMES, preset, preset_names
from stapo_bench.engines.engine import BUILT_IN, check_sampling, check_tool
from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.options import EngineOptions
from stapo_bench.engines.params import cut_at_stop
from stapo_bench.engines.server_settings import OFF
from stapo_bench.errors import UsageError
from stapo_bench.records import SamplingParams
from stapo_bench.runs import load_manifest
from stapo_bench.sampling.eval_options import changed_decoding
from stapo_bench.sampling.identity import stated_engine
from stapo_train.tiny.random_model import random_model, save

pytestmark = pytest.mark.usefixtures("graded_here")

serve = pytest.fixture(serving)


def test_the_papers_regimes_are_what_it_prints():
    assert REGIMES == ("training", "justrl") == tuple(preset_names()[:2])
    assert preset("training") == SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=20_480)
    assert preset("justrl") == SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=20_480)


def test_every_preset_is_one_that_can_be_sampled():
    for name in preset_names():
        check_sampling(EngineOptions(name="transformers"), preset(name))


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("temperature: 1\nmin_p: 0.05\nstop: ['Q:', \"\\n\\n\"]\n")
    name, params = changed_decoding(str(path), {"top_k": None, "stop": ()})
    assert name == "mine"
    asked = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.05, "stop": ("Q:", "\n\n"), "max_new_tokens": 20_480}
    assert params == SamplingParams(**asked)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("top_p: 0.9", "expected temperature and others of"),
        ("temperature: 1\ntop-k: 3", "got temperature, top-k"),
        ("temperature: hot", "temperature: expected a number, got 'hot'"),
        ("temperature: true", "temperature: expected a number, got 'True'"),
        ("temperature: 1\ntop_k: 2.5", "top_k: expected a whole number, got '2.5'"),
        ("temperature: 1\nstop: 'Q:'", "stop: expected a list of texts, got 'Q:'"),
        ("temperature: 1\nstop: [3]", "stop: expected a list of texts"),
        ("- 3", "got list"),
        ("a: [", "not a readable YAML file"),
    ],
)
def test_a_file_that_holds_no_preset_is_one_line(small, stapo, content, words):
    (small / "mine.yaml").write_text(content)
    code, _, error = stapo(
        "eval", "--engine", "scripted", "--ckpt", "script.yaml", "--decoding", "mine.yaml", "--tasks", "sums.yaml"
    )
    assert code in (1, 2)
    assert words in one_line(error)
    assert not (small / "results").exists()


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'greedy'"):
        preset("gredy")


def test_changed_settings_name_row_folder_and_manifest(small, stapo):
    save(random_model(), small / "ckpt")
    command = ("eval", "--ckpt", "ckpt", "--tasks", "sums.yaml", "--data-dir", ".", "--max-new-tokens", "8")
    changes = ("--samples", "2", "--limit", "3", "--decoding", "justrl", "--temperature", "0.6", "--top-k", "3")
    code, output, error = stapo(*command, *changes, "--stop", "zz")
    assert code == 0, error
    run = small / "results/ckpt-justrl-temperature0.6-top_k3-stop"
    assert "T=0.6, top-p 0.9, top-k 3, stop at 'zz'" in output
    manifest = load_manifest(run)
    expected = {"temperature": 0.6, "top_p": 0.9, "max_new_tokens": 8, "top_k": 3, "stop": ("zz",)}
    assert manifest.identity.sampling == SamplingParams(**expected)
    assert manifest.identity.engine["sampler"] == "inverse CDF of Philox draws; penalties off"
    assert json.loads((run / "scores.json").read_text())["top_k"] == 3
    assert stapo("score", run)[1].strip() == output.strip()  # read back
    assert "nothing is missing" in stapo(*command, *changes, "--stop", "zz")[2]
    # Other settings are another run: they never join the samples of this one.
    code, _, error = stapo(*command, *changes, "--out", run)
    assert code != 0 and "sampling.stop" in error


def test_greedy_is_one_sample_a_problem(small, stapo):
    save(random_model(), small / "ckpt")
    command = ("eval", "--ckpt", "ckpt", "--tasks", "sums.yaml", "--data-dir", ".", "--max-new-tokens", "4")
    code, output, error = stapo(*command, "--decoding", "greedy")
    assert code == 0, error
    assert "SUMS @1" in output.upper() and "| greedy " in output
    assert "would come out the same again" in output
    code, _, error = stapo(*command, "--decoding", "training", "--temperature", "0", "--samples", "2")
    assert code == 2
    assert "--samples: expected 1 with greedy decoding" in one_line(error)


@pytest.mark.parametrize("flags", [("--top-k", "5"), ("--min-p", "0.1"), ("--stop", "x"), ("--decoding", "greedy")])
def test_an_engine_that_does_not_apply_a_setting_refuses_it(small, stapo, flags):
    command = ("eval", "--engine", "scripted", "--ckpt", "script.yaml", "--tasks", "sums.yaml", "--decoding", "justrl")
    code, _, error = stapo(*command, "--data-dir", ".", *flags)
    assert code == 2
    assert "expected an engine that applies it, got scripted" in one_line(error)
    assert not (small / "results").exists()


@pytest.mark.parametrize(("name", "takes"), [("transformers", 1), ("vllm", 1), ("openai", 0), ("scripted", 0)])
def test_an_engine_that_cannot_go_on_behind_a_tool_s_tokens_refuses_it(name, takes):
    with (
        nullcontext() if takes else pytest.raises(UsageError, match=f"tool calculator: expected .*, got {name}, which")
    ):
        check_tool(EngineOptions(name=name), "calculator")


def test_a_server_is_sent_what_was_asked_for(serve):
    server = serve()
    params = replace(PARAMS, temperature=0.6, top_k=20, min_p=0.05, stop=("Q:", "\n\n"))
    assert len(list(OpenAIEngine([server.url]).generate(make_requests(2), params))) == 2
    body = server.bodies[-1]
    assert [body[name] for name in ("temperature", "top_k", "min_p", "stop")] == [0.6, 20, 0.05, ["Q:", "\n\n"]]


def test_what_an_engine_says_of_itself_does_not_contradict_the_run():
    said = {"engine": "openai", "sent": json.dumps(OFF, sort_keys=True)}
    assert stated_engine(said, PARAMS) == said  # runs without these settings keep the digest that they had
    told = json.loads(stated_engine(said, replace(PARAMS, top_k=20))["sent"])
    assert told == {**OFF, "top_k": 20}


def test_runs_without_new_settings_keep_their_manifest(tmp_path):
    from conftest import write_run

    run = write_run(tmp_path / "run", {"t": [[1, 0]]})
    written = json.loads((run / "manifest.json").read_text())["identity"]["sampling"]
    assert load_manifest(run).identity.to_json()["sampling"] == written


def test_the_first_stop_text_wins():
    assert cut_at_stop("one two three", ["three", "two"]) == "one "
    assert cut_at_stop("one", ["two"]) == "one"


def test_the_page_says_what_the_engines_apply():
    page = (Path(__file__).parent.parent / "docs/decoding.md").read_text(encoding="utf-8")
    lines = page.split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    names, settings = rows[0][1:-1], {row[0].split(" (")[0].replace("-", "_"): row[1:-1] for row in rows[3:]}
    assert names == list(BUILT_IN)
    for column, name in enumerate(names):
        applies = getattr(resolve_name(BUILT_IN[name]), "applies", frozenset())
        said = {setting for setting, cells in settings.items() if cells[column] != "refused"}
        assert said == applies, name
    held = dict(re.findall(r"^\* `(\[[a-z ]+\])`: ((?:.|\n  )+)$", page, re.MULTILINE))
    assert {label for row in rows[2:] for label in re.findall(r"`(\[[a-z ]+\])`", row[-1])} == held.keys()
    for tests in held.values():
        named = re.findall(r"`(\w+)::(\w+)`", tests)
        assert named and all(name in functions_in(file) for file, name in named), tests
