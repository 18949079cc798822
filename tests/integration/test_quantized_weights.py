"""A checkpoint quantized to 8 bits, by vLLM for real: its scheme is read back, and it draws what the same numbers draw.

Made by hand in compressed-tensors' format, W8A8: whole numbers of 8 bits with a scale for each row of a matrix, and
each token's inputs rounded to 8 bits by their own largest. Run by ``scripts/integration.sh vllm``.
"""

import importlib.util
import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from stapo_bench.engines import EngineOptions, open_engine, options_of
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_train.tiny.random_model import END, random_model, save

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)

EIGHT_BITS = {"num_bits": 8, "type": "int", "symmetric": True}
SCHEME = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {**EIGHT_BITS, "strategy": "channel", "dynamic": False},
            "input_activations": {**EIGHT_BITS, "strategy": "token", "dynamic": True},
        }
    },
}
STEPS = 127  # on each side of 0, of inputs
WEIGHT_STEPS = 63  # of weights: with more, sums of products saturate on processors without VNNI, and draws go wrong


def quantize(folder: Path) -> None:
    """w = scale * code, scale = max |w| / 63 over a matrix's row, in the place of the folder's weights."""
    kept = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if "_proj" in name:
            scale = weight.abs().amax(1, keepdim=True) / WEIGHT_STEPS
            kept |= {name: (weight / scale).round().to(torch.int8), f"{name}_scale": scale}
        else:
            kept[name] = weight
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": SCHEME}))


def rounded(values: torch.Tensor, steps: int) -> torch.Tensor:
    """Each row as whole numbers of so many steps hold it."""
    scale = values.abs().amax(-1, keepdim=True) / steps
    return (values / scale).round() * scale


def dequantized(*, inputs: bool) -> Any:
    """The model in float32 with the codes' numbers as weights; ``inputs``: and with its layers' inputs rounded."""
    model = random_model(sharpness=12.0, end_ids=[END])
    for name, layer in model.named_modules():
        if name.endswith("_proj"):
            layer.weight.data = rounded(layer.weight.data, WEIGHT_STEPS)
            if inputs:
                layer.register_forward_pre_hook(lambda _, given: (rounded(given[0], STEPS),))
    return model


@torch.no_grad()
def log_probs(model: Any, prompt: tuple[int, ...], drawn: tuple[int, ...]) -> torch.Tensor:
    """[T] of the tokens that were drawn behind a prompt."""
    found = model(torch.tensor([[*prompt, *drawn]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return found.gather(-1, torch.tensor(drawn)[:, None]).squeeze(-1)


def test_a_checkpoint_of_8_bits_is_named_and_draws_what_its_numbers_draw(tmp_path: Path):
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    folder = save(random_model(sharpness=12.0, end_ids=[END]), tmp_path)
    quantize(folder)
    prompts = [tuple(range(10 * i, 10 * i + 8)) for i in range(16)]
    requests = [
        Request(
            key=SampleKey("t", str(i), 0), prompt=Prompt(task="t", problem_id=str(i), text="", token_ids=ids), seed=i
        )
        for i, ids in enumerate(prompts)
    ]
    params = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=24)
    with closing(open_engine(EngineOptions(name="vllm"), folder)) as engine:
        identity = engine.identity()
        completions = {int(c.key.problem_id): c for c in engine.generate(requests, params)}
    assert (identity["quantization"], identity["dtype"]) == ("compressed-tensors", "float32")
    assert options_of(identity).quantization == "compressed-tensors"
    reported = torch.cat([torch.tensor(completions[i].log_probs) for i in range(16)])
    assert len(reported) > 300

    def away(model: Any) -> torch.Tensor:
        expected = [log_probs(model, ids, completions[i].token_ids) for i, ids in enumerate(prompts)]
        return (reported - torch.cat(expected)).abs()

    assert away(dequantized(inputs=True)).quantile(0.9) < 1e-4  # an input may be rounded to the code beside it
    assert away(dequantized(inputs=False)).mean() > 5e-3  # what would be seen of inputs that are not rounded,
    assert away(random_model(sharpness=12.0, end_ids=[END])).mean() > 1e-2  # and of weights that are not
