"""Top-k and min-p are switched off by 0, as vLLM and transformers have it; top-k by vLLM's -1 as well."""

import pytest

from stapo_bench.engines import preset
from stapo_bench.errors import UsageError
from stapo_bench.runs import load_manifest
from stapo_bench.sampling.eval_options import changed_decoding

EVAL = ("eval", "--engine", "scripted", "--ckpt", "script.yaml", "--tasks", "sums.yaml", "--data-dir", ".")


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_presets_top_k_is_switched_off_and_the_name_says_so(top_k):
    name, params = changed_decoding("qwen3-thinking", {"top_k": top_k})
    assert preset("qwen3-thinking").top_k == 20
    assert (name, params.top_k) == ("qwen3-thinking-top_k0", None)
    assert (params.temperature, params.top_p) == (0.6, 0.95)


def test_a_files_min_p_is_switched_off_and_what_it_says_off_itself_is_off(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("temperature: 1\nmin_p: 0.05\ntop_k: 0\n")
    name, params = changed_decoding(str(path), {"min_p": 0.0})
    assert (name, params.min_p, params.top_k) == ("mine-min_p0", None, None)
    assert changed_decoding(str(path), {})[1].min_p == 0.05


@pytest.mark.parametrize("changes", [{"top_k": -2}, {"min_p": -0.1}])
def test_what_is_below_is_no_number_of_tokens(changes):
    with pytest.raises(UsageError, match=r"(top-k|min-p): expected "):
        changed_decoding("qwen3-thinking", changes)


def test_the_command_takes_it_where_the_engine_applies_no_top_k(small, stapo):
    code, _, error = stapo(*EVAL, "--decoding", "qwen3-thinking")
    assert code == 2 and "--top-k: expected an engine that applies it, got scripted" in error
    code, table, error = stapo(*EVAL, "--decoding", "qwen3-thinking", "--top-k", "0", "--min-p", "0", "--out", "run")
    assert code == 0, error
    manifest = load_manifest(small / "run")
    assert manifest.about.regime == "qwen3-thinking-top_k0-min_p0"
    assert (manifest.identity.sampling.top_k, manifest.identity.sampling.min_p) == (None, None)
    assert "T=0.6, top-p 0.95" in table and "top-k" not in table
