"""What a model's configuration says that the slots of the embedded engine have to know."""

from typing import Any

from stapo_bench.errors import StapoError


def check_attention(config: Any) -> None:
    """Refuse models whose attention the slots cannot serve, rather than computing something else."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or (not hasattr(config, "layer_types") and getattr(config, "sliding_window", None)):
        raise StapoError(
            f"{config.model_type}: expected full attention in every layer, got {', '.join(sorted(kinds))} with "
            f"sliding_window {getattr(config, 'sliding_window', None)}; use another engine"
        )
    if config._attn_implementation not in ("sdpa", "eager"):
        raise StapoError(
            f"expected attention sdpa or eager, got {config._attn_implementation}: "
            "load the model with attn_implementation='sdpa'"
        )


def states_shape(config: Any) -> tuple[int, int, int]:
    """(L, H, D): layers, key/value heads, head dimension."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers, heads, dim


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every id that ends a sequence: the tokenizer's, the config's and the generation config's together."""
    ids: set[Any] = set()
    for source in (tokenizer, model.config, getattr(model, "generation_config", None)):
        found = getattr(source, "eos_token_id", None)
        several = found if isinstance(found, (list, tuple)) else [] if found is None else [found]
        ids.update(end if isinstance(end, int) else str(end) for end in several)
    if not all(type(end) is int for end in ids):
        raise StapoError(f"eos_token_id: expected a token's number or several, got {sorted(map(str, ids))}")
    if not ids:
        raise StapoError("neither tokenizer nor configuration names an end-of-sequence token: set eos_token_id")
    return tuple(sorted(ids))
