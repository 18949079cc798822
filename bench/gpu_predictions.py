"""What the engines' own sources say about a first run on a GPU: where it would break or be slow, and what was done.

Read in vLLM 0.32.0, verl 0.9.1, torch 2.13.0, transformers 5.23.0. ``bench.gpu`` renders this as the table of
docs/gpu.md and runs ``command`` on a GPU.
"""

from dataclasses import dataclass

RUN = "runs/gpu-check"
SMALL = f"{RUN}/small"
VLLM, VERL = ".venv-vllm/bin/python", ".venv-verl/bin/python"
_EVAL = f"{VLLM} -m stapo_bench eval --decoding justrl --tasks tiny_aime24 --limit 4 --samples 2 --max-new-tokens 96"
_BASE = f"{_EVAL} --ckpt {SMALL}/base"
_TABLE = "scripts/reproduce_table.sh --scale"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One place in a source, and what follows from it here."""

    name: str
    source: str  # file of the engine, and the name in it
    says: str  # what happens on a GPU, by the source
    repair: str
    checked: tuple[str, ...]  # tests that need no GPU: "tests/file.py::test"
    command: str | None = None  # run on a GPU; exit code 0: the repair holds. None: by hand, see ``by_hand``
    by_hand: str = ""
    gpus: int = 1


PREDICTIONS = (
    Prediction(
        name="small scale's environment",
        source="vLLM METADATA: `transformers<5.20`, `torch==2.13.0`",
        says="`--scale small` stops without vLLM once its base is made; with the core's versions pip refuses vLLM",
        repair="an environment of its own, made where there is a GPU; looked for before anything starts",
        checked=(
            "tests/test_reproduce_small.py::test_without_vllm_nothing_is_begun",
            "tests/test_launch_files.py::test_a_machine_with_a_gpu_makes_the_environment_that_the_scale_needs",
            "tests/test_resolution.py::test_what_pip_found_is_what_is_asked_for_today",
        ),
        command=f"{_TABLE} small --out {SMALL} iterations=2 pretrain.steps=200 eval.limit=4 eval.samples=1",
    ),
    Prediction(
        name="a GPU that torch does not see",
        source="torch `cuda/__init__.py`: `is_available` warns and returns False where the driver is older than CUDA",
        says="everything runs on the CPU, without a word",
        repair="where `nvidia-smi -L` lists GPUs and torch sees none, an error with the ways out",
        checked=("tests/test_engine_gpu.py::test_nothing_starts_on_the_cpu_unasked",),
        command=f"{VLLM} -c \"from stapo_bench.engines import default_device as d; assert d() == 'cuda', d()\"",
    ),
    Prediction(
        name="ranks of tensor parallelism",
        source="vLLM `utils/system_utils.py`: `_maybe_force_spawn` asks `torch.cuda.is_initialized`; torch "
        "`csrc/cuda/Module.cpp`: counting GPUs is enough to spoil a fork",
        says='`--engine auto --tensor-parallel 2`: "Cannot re-initialize CUDA in forked subprocess"',
        repair="ranks are started anew (`spawn`), whatever the environment says",
        checked=("tests/test_engine_gpu.py::test_ranks_start_anew_since_a_question_for_gpus_spoils_forks",),
        command=f"{_BASE} --tensor-parallel 2 --out {RUN}/split",
        gpus=2,
    ),
    Prediction(
        name="a busy GPU",
        source="vLLM `v1/worker/utils.py`: `request_memory`",
        says='"Free memory on device ... is less than desired", as an unexpected ValueError',
        repair="named, with `--gpu-memory`",
        checked=(
            "tests/test_engine_gpu.py::test_what_does_not_fit_is_named_with_the_way_out",
            "tests/test_engine_gpu.py::test_the_ways_out_work",
        ),
        command=f"{VLLM} -m bench.gpu --busy {SMALL}/base",
    ),
    Prediction(
        name="a long context",
        source="vLLM `v1/core/kv_cache_utils.py`: `_check_enough_kv_cache_memory`, for one sequence of `max_model_len`",
        says="a checkpoint of 131,072 positions does not start where 20,480 tokens would fit",
        repair="`max_model_len` of the longest prompt and its new tokens; a shorter context is told before the start",
        checked=(
            "tests/test_engine_gpu.py::test_vllm_is_ready_for_what_is_asked_and_never_for_more_than_the_model",
            "tests/test_engine_gpu.py::test_a_context_shorter_than_the_limit_is_said_before_the_start",
            "tests/test_rollout.py::test_vllm_is_told_how_long_a_sequence_can_be_and_a_short_context_is_said",
        ),
        command=f"{_BASE} --gpu-memory 0.3 --engine vllm --out {RUN}/long",
    ),
    Prediction(
        name="several checkpoints",
        source="vLLM `v1/executor/multiproc_executor.py`: `collective_rpc` sends its arguments to every rank",
        says="every rank receives the whole state dict through a socket",
        repair="ranks get the folder's name and read it",
        checked=("tests/test_engine_gpu.py::test_ranks_read_the_next_checkpoint_by_themselves",),
        command=f"{_EVAL} --ckpt '{SMALL}/*/checkpoints/final' --engine vllm --tensor-parallel 2 --out {RUN}/several",
        gpus=2,
    ),
    Prediction(
        name="FlashInfer's sampler",
        source="vLLM `v1/sample/ops/topk_topp_sampler.py`: `forward_cuda` leaves requests with generators to torch; "
        "`v1/worker/gpu/sample/sampler.py`: `any_explicit_seed`",
        says="compiled at every start, and never used by requests with a seed",
        repair="off (`VLLM_USE_FLASHINFER_SAMPLER=0`), in process and for `vllm serve`",
        checked=("tests/test_engine_gpu.py::test_flashinfers_sampler_is_not_compiled_at_every_start",),
        command=f"{VLLM} -m pytest -q tests/test_engine_vllm.py",
    ),
    Prediction(
        name="another runner",
        source="vLLM `config/vllm.py`: `use_v2_model_runner`, `async_scheduling`",
        says="a GPU draws with other code (runner V2, asynchronous scheduling) than the CPU tests do",
        repair="both are part of a run's identity; the tests of the CPU run on the GPU, too",
        checked=("tests/test_engine_gpu.py::test_runner_and_scheduling_are_part_of_the_identity",),
        command=f"{VLLM} -m pytest -q tests/integration/test_eval_vllm.py tests/integration/test_train_vllm.py",
    ),
    Prediction(
        name="slots of the transformers engine",
        source="torch `cuda/memory.py`; transformers `integrations/sdpa_attention.py`",
        says="256 slots grow until memory runs out, are halved and never come back; growing needs all states twice",
        repair="as many as the free memory holds at full length, tried again later; states grow tensor by tensor; "
        "`CUBLAS_STATUS_ALLOC_FAILED` is out of memory, too",
        checked=(
            "tests/test_engine_memory.py::test_a_cache_larger_than_the_memory_left_is_not_begun",
            "tests/test_engine_memory.py::test_slots_come_back_after_memory_was_short_for_a_while",
            "tests/test_engine_memory.py::test_a_cache_grows_where_one_of_its_tensors_fits_a_second_time",
            "tests/test_engine_memory.py::test_out_of_memory_halves_the_slots_and_loses_nothing",
        ),
        command=f"{_BASE} --engine transformers --out {RUN}/transformers",
    ),
    Prediction(
        name="precision of the transformers engine",
        source="transformers `modeling_utils.py`: `dtype='auto'` is the folder's own",
        says="a trained folder (float32) is sampled at half the speed and under another identity than its base",
        repair="bfloat16 on a GPU for every folder, float16 where there is no bfloat16",
        checked=("tests/test_engine_gpu.py::test_a_gpu_computes_in_half_precision_whatever_the_folder_holds",),
        command=f'grep -Eq \'"dtype": *"bfloat16"\' {RUN}/transformers/manifest.json',
    ),
    Prediction(
        name="memory of a training",
        source="torch `optim/adamw.py`: `_multi_tensor_adamw` copies every second moment; autograd's saved tensors",
        says="gradients stay while rollouts are drawn; layer inputs are float32 under autocast; estimates with 0.1 GiB "
        "to spare pass",
        repair="gradients end with the step; AdamW is fused on a GPU; estimates count both and 5 % for their doubt",
        checked=(
            "tests/test_update.py::test_a_step_moves_the_weights_as_adamw_would",
            "tests/test_cost.py::test_what_a_layer_keeps_is_what_autograd_keeps",
            "tests/test_cost.py::test_what_cannot_work_is_refused_in_one_line",
            "tests/test_train_run.py::test_a_fused_optimizers_step_counts_are_where_its_weights_are",
        ),
        command=f"PYTHON={VLLM} scripts/gpu_day.sh mask",
    ),
    Prediction(
        name="registers of the Triton kernels",
        source="torch METADATA: `triton==3.7.1`; ptxas for sm_90",
        says="tiles of 128 × 256: 255 registers; `_measure` spills nothing, `_differentiate` 24 to 48 bytes a thread "
        "outside the loop over D (Triton 3.9: 152 and 80); tiles of 128 × 128 nothing",
        repair="the version that torch brings is the one that is tested; the loop may not spill; `bench.linear` times "
        "the smaller tiles beside",
        checked=(
            "tests/integration/test_fused_kernels.py::test_compiled_for_hopper",
            "tests/test_resolution.py::test_an_environment_for_gpus_has_torch_for_cuda_and_one_triton",
        ),
        command=f"PYTHON={VLLM} scripts/gpu_day.sh check linear",
    ),
    Prediction(
        name="evaluation on several nodes",
        source="vLLM `v1/engine/utils.py`: `create_dp_placement_groups`; `data_parallel_size_local` is all by default",
        says='"Not enough resources to allocate 64 DP ranks on DP master node"',
        repair="`--data-parallel-size-local`: the engines of a node",
        checked=(
            "tests/test_launch_files.py::test_engines_are_spread_over_the_nodes",
            "tests/test_reproduce_paper.py::test_every_stage_comes_after_what_it_needs",
        ),
        by_hand="`scripts/launch/evaluate.sh CHECKPOINT justrl RUN 16 1 8` on two nodes of 8",
    ),
    Prediction(
        name="verl's stack",
        source="verl METADATA, extra `vllm`: `torch==2.11.0`, `vllm==0.24.0`; `workers/config/model.py`: attention "
        "`flash_attention_2`",
        says="training stops without flash-attn; our extra `vllm` asks for another vLLM than verl's",
        repair="the extra `verl-gpu` with tested versions; flash-attn is looked for with verl and vLLM",
        checked=(
            "tests/test_reproduce_paper.py::test_everything_that_a_cluster_needs_is_looked_for",
            "tests/test_resolution.py::test_vllm_and_the_core_cannot_share_an_environment_and_need_not",
        ),
        command=f'scripts/gpu_environment.sh verl && {VERL} -c "import verl, vllm, flash_attn"',
    ),
    Prediction(
        name="verl's entropies",
        source="verl `utils/torch_functional.py`: `entropy_from_logits_with_chunking`, compiled with its loop",
        says="every number of chunks is compiled anew; after eight it runs uncompiled",
        repair="the loop stands outside of what is compiled",
        checked=(
            "tests/test_verl.py::test_entropies_in_chunks_are_compiled_once_whatever_the_number_of_rows",
            "tests/integration/test_verl.py",
        ),
        by_hand="`TORCH_LOGS=recompiles scripts/reproduce_table.sh --scale paper --model 1.7b --nodes 1 iterations=2`",
    ),
)
