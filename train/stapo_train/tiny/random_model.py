"""A small Qwen3 with random weights and a tokenizer of bytes, for measurements and tests that need no trained model.

    save(random_model(), Path("checkpoint"))

The defaults are a shape that every engine takes (the smallest head that vLLM's CPU build knows is 32), and end tokens
likely enough that sequences end at long-tailed lengths.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

END = 256  # the ids below it are the bytes
ENDS = (END, *range(40, 52))


def byte_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Every byte is a token, and one more ends a sequence."""
    vocabulary = {character: i for i, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab=vocabulary | {"<end>": END}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", pad_token="<end>")


def random_model(
    *,
    hidden_size: int = 64,
    num_layers: int = 2,
    num_heads: int = 4,
    head_dim: int = 32,
    context_length: int = 128,
    sharpness: float = 6.0,
    end_ids: Sequence[int] = ENDS,
) -> transformers.Qwen3ForCausalLM:
    """The model, with the same weights at every call.

    sharpness: factor on the logits; random weights give nearly uniform distributions.
    end_ids: what ends a sequence, each about as likely as any other of the 300 ids.
    """
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=300,
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size // 2,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        num_key_value_heads=num_heads // 2,
        head_dim=head_dim,
        max_position_embeddings=context_length,
        eos_token_id=END,
        pad_token_id=END,
    )
    model = transformers.Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(sharpness)
    model.generation_config.eos_token_id = list(end_ids)
    return model.eval()


def save(model: transformers.Qwen3ForCausalLM, folder: Path, **generation: Any) -> Path:
    """Write a checkpoint folder; ``generation``: sampling defaults for its generation config, besides end tokens."""
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    defaults = {"eos_token_id": model.generation_config.eos_token_id, **generation}
    (folder / "generation_config.json").write_text(json.dumps(defaults), encoding="utf-8")
    return folder
