"""The cost of a run: parameters, memory, time and disk against hand arithmetic and published numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.tasks.loading import load_task, task_names
from stapo_train.config import LoraConfig
from stapo_train.cost import estimate as cost
from stapo_train.cost.memory import (
    FIXED_GIB,
    GIB,
    cached_sequences,
    check_setup,
    layer_bytes,
    sharded_memory,
    single_memory,
)
from stapo_train.cost.shapes import GPUS, PUBLISHED_RECIPE, SHAPES, Gpu, Recipe, Setup, Shape, read_shape
from stapo_train.reproduce import cost_table

ROOT = Path(__file__).resolve().parent.parent

TOY = Shape(layers=2, hidden=8, intermediate=16, heads=4, kv_heads=2, head_dim=4, vocab=10, tied=False)
SLOW = Gpu(name="slow", memory_gib=1, flops=1e6, bandwidth=1e6)
H20S = Setup(gpu=GPUS["h20"], nodes=8, gpus_per_node=8)


@pytest.mark.parametrize(
    ("name", "total", "in_layers"),
    [  # half of the bytes that the weights' index on the Hub states, where 1.7b's holds the tied matrix twice
        ("1.7b", 4_063_479_808 // 2 - 151_936 * 2048, 1.4e9),
        ("8b", 16_381_470_720 // 2, 6.95e9),
        ("14b", 29_536_614_400 // 2, 13.2e9),
    ],
)
def test_the_sizes_have_their_published_numbers_of_parameters(name, total, in_layers):
    shape = SHAPES[name]
    assert shape.parameters == total
    assert shape.layers * shape.layer_parameters == pytest.approx(in_layers, rel=0.01)


def test_a_toys_parameters_and_operations_by_hand():
    # attention: q and o 2 x 8 x 16, k and v 2 x 8 x 8 = 384; MLP 3 x 8 x 16 = 384; norms 2 x 8 + 2 x 4 = 24
    assert TOY.layer_parameters == 384 + 384 + 24
    assert TOY.root_parameters == 2 * 10 * 8 + 8
    assert TOY.parameters == 2 * 792 + 168
    assert replace(TOY, tied=True).parameters == 2 * 792 + 88
    assert TOY.kv_bytes == 2 * 2 * 2 * 2 * 4  # k and v, bfloat16, layers, heads, dimensions
    # matrices 2 x 792 + 80, twice; attention 4 x layers x 16 dimensions x half of 100 tokens
    assert TOY.forward_flops(100) == 2 * 1664 + 4 * 2 * 16 * 50


def test_the_shape_of_a_folder_is_its_configs(tmp_path):
    config = {
        "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 10,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_shape(tmp_path) == TOY
    del config["head_dim"]  # then it is hidden / heads
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    assert read_shape(tmp_path) == replace(TOY, head_dim=2, tied=True)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(StapoError, match=r"config\.json: expected a decoder's config\.json, got KeyError"):
        read_shape(tmp_path)


def test_the_parts_of_a_ranks_memory_by_hand():
    setup = Setup(gpu=replace(SLOW, memory_gib=10), nodes=1, gpus_per_node=4, tensor_parallel=2, sequence_parallel=2)
    memory = sharded_memory(TOY, setup, Recipe(max_prompt=10, max_response=90))
    assert memory.state * GIB == pytest.approx(12 * 1752 / 4)
    assert memory.gradients * GIB == pytest.approx(4 * 1752 / 4)
    assert memory.gathered * GIB == pytest.approx(2 * (2 * 792 + 168) + 4 * 168)
    assert memory.step * GIB == pytest.approx(4 * 1752 / 4)
    # 50 tokens of a sequence on each of two GPUs; per token 2 layers x 8 x 2 bytes, and one layer's inner values
    assert memory.activations * GIB == pytest.approx(50 * (2 * 8 * 2 + 16 * 8 + 10 * 4 * 6 + 8 * 16))
    assert memory.logits * GIB == pytest.approx(50 * 10 * 10)
    assert memory.rollout_weights * GIB == pytest.approx(1752)
    assert memory.kv_cache == pytest.approx(6 - 4, abs=1e-4)  # 60 % of 10 GiB less what vLLM keeps for itself
    # Two GPUs' caches together, 64 bytes a token
    assert cached_sequences(TOY, setup, 1024) == pytest.approx(2 * 2 * GIB / (64 * 1024), rel=1e-3)
    assert memory.while_updating == pytest.approx(3, abs=1e-3)
    assert memory.while_sampling == pytest.approx(6 + 3, abs=1e-3)


def test_the_published_16_bytes_a_parameter_of_1_7_b_on_one_gpu():
    setup = replace(H20S, nodes=1, gpus_per_node=1)
    memory = single_memory(SHAPES["1.7b"], setup, micro_batch_tokens=32_768)
    assert (memory.state + memory.gradients) * GIB == pytest.approx(16 * 1.7206e9, rel=1e-4)
    assert memory.gathered * GIB == pytest.approx(2 * 1.7206e9, rel=1e-4)
    # 28 layer inputs of 2048 float32 numbers, and one layer's values
    inner = 26 * 2048 + 10 * 128 * 24 + 8 * 6144
    assert memory.activations * GIB == pytest.approx(32_768 * (28 * 2048 * 4 + inner))
    whole = single_memory(SHAPES["1.7b"], setup, micro_batch_tokens=32_768, checkpointing=False)
    assert whole.activations * GIB == pytest.approx(32_768 * 28 * inner)
    assert memory.step == 0  # AdamW is fused there


def test_an_adapters_memory_by_hand():
    # q and o 8 + 16, k and v 8 + 8, the MLP's three 8 + 16; two layers of rank 3
    assert sum(TOY.adapter_tensors(3, ("q_proj", "v_proj", "down_proj"))) == 2 * 3 * (24 + 16 + 24)
    assert sum(TOY.adapter_tensors(1, LoraConfig(rank=1, alpha=1.0).targets)) == 2 * (2 * 24 + 2 * 16 + 3 * 24)
    found = TOY.adapter_tensors(3, ("model.layers.1.self_attn.k_proj", "mlp.up_proj"))  # a layer's, and each one's
    assert sorted(found) == sorted([3 * 8, 3 * 8, *2 * [3 * 8, 3 * 16]])
    with pytest.raises(UsageError, match=r"lora\.targets: expected some of q_proj, .*, got lm_head"):
        TOY.adapter_tensors(1, ("lm_head",))
    setup = replace(H20S, nodes=1, gpus_per_node=1)
    memory = single_memory(TOY, setup, 100, adapter=384)
    assert memory.state * GIB == pytest.approx(4 * 1752 + 12 * 384)  # frozen; weights and two moments
    assert memory.gradients * GIB == pytest.approx(4 * 384)
    assert memory.rollout_weights * GIB == pytest.approx(2 * 1752)  # merged


def test_what_the_page_says_of_8b_is_computed():
    shape = SHAPES["8b"]
    adapter = sum(shape.adapter_tensors(16, LoraConfig(rank=16, alpha=32.0).targets))
    setup = replace(H20S, nodes=1, gpus_per_node=1)
    whole, small = (single_memory(shape, setup, 32_768, adapter=n).while_updating for n in (None, adapter))
    offloaded = single_memory(shape, setup, 32_768, adapter=adapter, offload=True).while_updating
    said = (
        f"8B then takes {small:.0f} GiB in place of {whole:.0f} while\nweights are updated, and {offloaded:.0f} with "
        "`activation_offload`"
    )
    assert said in (ROOT / "train" / "README.md").read_text(encoding="utf-8")


def test_offload_leaves_one_layers_input():
    setup = replace(H20S, nodes=1, gpus_per_node=1)
    kept, offloaded = (single_memory(TOY, setup, 100, offload=offload).activations for offload in (False, True))
    assert (kept - offloaded) * GIB == pytest.approx(100 * (2 - 1) * 8 * 4)


def test_the_optimizers_own_memory_counts_where_it_is_more_than_the_passes():
    memory = sharded_memory(SHAPES["14b"], replace(H20S, nodes=1), Recipe(max_prompt=1, max_response=7))
    few_tokens = replace(memory, gathered=0.0)
    assert few_tokens.while_updating == pytest.approx(memory.state + memory.gradients + memory.step + FIXED_GIB)


@pytest.mark.parametrize(
    ("dtype", "residual_bytes", "autocast"), [("float32", 4, True), ("bfloat16", 2, True), ("float32", 4, False)]
)
def test_what_a_layer_keeps_is_what_autograd_keeps(dtype, residual_bytes, autocast):
    """Bytes of a Qwen3 layer's saved tensors; a few more are of rotations and of norms' scales."""
    import torch
    import transformers

    tokens, layers, heads, kv_heads, head_dim = 96, 3, 4, 2, 32
    config = transformers.Qwen3Config(
        vocab_size=300, hidden_size=256, intermediate_size=640, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, attn_implementation="sdpa",
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config).to(getattr(torch, dtype))
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    handed_on, kept, inside = [], {}, []

    def keep(tensor):
        place = tensor.untyped_storage().data_ptr()
        if inside and place not in weights and tokens in tensor.shape:
            kept[place] = tensor
        return tensor

    layer = model.model.layers[1]
    layer.register_forward_pre_hook(lambda _, given: (inside.append(1), handed_on.append(given[0].dtype))[0])
    layer.register_forward_hook(lambda *_: inside.clear())
    ids = torch.zeros((1, tokens), dtype=torch.long)
    arithmetic = torch.autocast("cpu", torch.bfloat16, enabled=autocast)
    with arithmetic, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.model(input_ids=ids, use_cache=False)
    shape = Shape(
        layers=layers, hidden=256, intermediate=640, heads=heads, kv_heads=kv_heads, head_dim=head_dim, vocab=300,
        tied=False,
    )  # fmt: skip
    assert handed_on == [getattr(torch, dtype)] and handed_on[0].itemsize == residual_bytes
    each = sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / tokens
    assert each == pytest.approx(layer_bytes(shape, residual_bytes, autocast=autocast), rel=0.04)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor_parallel": 3}, "--tensor-parallel 3: expected a divisor of 8 GPUs a node and of 40"),
        ({"sequence_parallel": 16}, "--sequence-parallel 16: expected a divisor"),
        ({"nodes": 3}, "3 x 8 GPUs: expected 512 rollouts of a mini-batch to divide evenly over 24 data-parallel"),
        (
            {"nodes": 1, "gpu": GPUS["a100"]},
            r"A100/A800 80 GB: expected at most 71 GiB per GPU .90% of 79., got 78 GiB .7\S+ by the estimate",
        ),
        (  # 71.03 of 71.1 GiB by the estimate alone: 20.6 of weights and optimizer, 47.4 for vLLM, 3 fixed
            {"nodes": 1, "gpu": GPUS["h100"], "sequence_parallel": 2},
            r"H100/H800 80 GB: .* got 75 GiB .71.0 by the .* rollouts on 8 GPUs; lower rollout.gpu_memory=0.6",
        ),
        (
            {"rollout_share": 0.3},
            "room for one sequence of 16,384 tokens in vLLM's share, got -3.0 GiB; use --tensor-parallel 2",
        ),
        ({"nodes": 1, "rollout_share": 0.7}, r"got 95 GiB .9[0-9.]+ by .* during rollouts on 8 GPUs; lower"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(changes, message):
    with pytest.raises(UsageError, match=message) as caught:
        check_setup(SHAPES["14b"], replace(H20S, **changes), PUBLISHED_RECIPE)
    assert "\n" not in str(caught.value)


def test_the_papers_cluster_takes_every_size():
    for shape in SHAPES.values():
        assert check_setup(shape, H20S, PUBLISHED_RECIPE).most < 0.9 * 95


def test_seconds_of_a_toy_by_hand():
    recipe = Recipe(prompts=2, group_size=2, max_response=100, mean_prompt=20, mean_response=80)
    setup = Setup(gpu=replace(SLOW, memory_gib=1000), nodes=1, gpus_per_node=2)
    seconds = cost.iteration_seconds(TOY, setup, recipe, forward_passes=5)
    per_token = 2 * 1664 + 2 * 2 * 16 * 100
    assert seconds.passes == pytest.approx(5 * 4 * 100 * per_token / (2 * 1e6 * 0.4))
    # Each GPU draws 160 tokens in 100 steps, each of which reads 3,504 bytes of weights
    steps = 100 * (0.010 + 3504 / 1e6)
    read = 160 * (20 + 40) * 64 / 1e6
    assert seconds.generation == pytest.approx(steps + read + 160 * per_token / 0.4e6)
    assert seconds.total == seconds.generation + seconds.passes


def test_a_cache_that_is_too_small_makes_waves():
    large, small = (replace(H20S, nodes=1, rollout_share=share) for share in (0.6, 0.1))
    times = [cost.generation_seconds(SHAPES["1.7b"], s, PUBLISHED_RECIPE, 2048, 1000) for s in (large, small)]
    assert times[1] > 2 * times[0]


def test_without_room_for_a_whole_sequence_they_come_one_after_the_other():
    # 4 rollouts on 2 GPUs without any cache: two waves of 100 steps; what is read and computed stays the same
    recipe = Recipe(prompts=2, group_size=2, max_response=100, mean_prompt=20, mean_response=80)
    roomy, none = (Setup(gpu=replace(SLOW, memory_gib=gib), nodes=1, gpus_per_node=2) for gib in (1000, 0))
    seconds = [cost.generation_seconds(TOY, setup, recipe, 4, 100) for setup in (roomy, none)]
    assert seconds[1] - seconds[0] == pytest.approx(100 * (0.010 + 3504 / 1e6))


def test_disk_by_hand():
    assert cost.checkpoint_bytes(TOY) == 12 * 1752 and cost.folder_bytes(TOY) == 2 * 1752
    assert cost.samples_bytes(10, 100) == 10 * 900


@pytest.mark.parametrize("published", cost_table.PUBLISHED, ids=lambda p: p.what[:40])
def test_published_durations_are_met_within_a_factor_of_1_7(published):
    low, high = published.seconds
    assert low / 1.7 < cost_table.estimated(published) < high * 1.7


def test_the_whole_reproduction_is_what_the_paper_says():
    training = sum(row[3] for row in cost_table.reproduction_rows())
    # 64 GPUs x 24 h x 12 runs x (5 to 7 days)
    assert 92_160 < training < 129_024


def test_the_readmes_tables_are_the_rendered_ones():
    pages = "".join((ROOT / "train" / name).read_text(encoding="utf-8") for name in ("README.md", "SCALE.md"))
    assert cost_table.render_hours() in pages
    assert cost_table.render_memory() in pages


def test_an_evaluation_has_the_samples_of_the_papers_tasks():
    tasks = [load_task(name) for name in task_names("paper")]
    assert sum(task.num_problems * task.num_samples for task in tasks) == cost.EVAL_SAMPLES
