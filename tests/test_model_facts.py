"""What an engine reads of a model's configuration."""

from types import SimpleNamespace

import pytest

from stapo_bench.engines.model_facts import check_attention, end_ids, states_shape
from stapo_bench.errors import StapoError


def config_of(**how):
    plain = {"model_type": "m", "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32}
    return SimpleNamespace(**{**plain, "_attn_implementation": "sdpa", **how})


def test_what_a_configuration_says_of_the_slots():
    assert states_shape(config_of()) == (3, 4, 8)
    assert states_shape(config_of(num_key_value_heads=2, head_dim=16)) == (3, 2, 16)
    for fine in ({}, {"_attn_implementation": "eager"}, {"layer_types": ["full_attention"], "sliding_window": 8}):
        check_attention(config_of(**fine))
    for how, words in (
        ({"sliding_window": 8}, "m: expected full attention in every layer, got full_attention with sliding_window 8"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "got full_attention, sliding_attention with"),
        ({"_attn_implementation": "flash"}, "expected attention sdpa or eager, got flash"),
    ):
        with pytest.raises(StapoError, match=words):
            check_attention(config_of(**how))


def test_every_end_that_anybody_names_ends_a_sequence():
    def ends(tokenizer, config, generation):
        named = SimpleNamespace(
            config=SimpleNamespace(eos_token_id=config), generation_config=SimpleNamespace(eos_token_id=generation)
        )
        return end_ids(named, SimpleNamespace(eos_token_id=tokenizer))

    assert ends(7, 3, [5, 3]) == (3, 5, 7) and ends(None, (9,), None) == (9,) and ends(0, None, None) == (0,)
    assert end_ids(SimpleNamespace(config=SimpleNamespace()), SimpleNamespace(eos_token_id=2)) == (2,)
    with pytest.raises(StapoError, match="neither tokenizer nor configuration names an end"):
        ends(None, None, None)
    for wrong in (True, "2", [1, "2"]):
        with pytest.raises(StapoError, match="eos_token_id: expected a token's number or several"):
            ends(wrong, None, None)
