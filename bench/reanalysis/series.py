"""Data sets with few problems: fine-tunings, GRPO variants and checkpoints on competitions."""

from bench.reanalysis.record import DataSet, Run

_SKY = "NovaSky-AI+SkyThought/Sky-T1-math-"
_STEPS = (21, 35, 49, 63, 70, 84, 98, 105, 119, 133, 140)


def _sky(name: str) -> Run:
    return Run(name=name, files=(f"{_SKY}{name}__*.jsonl",), model="32B" if "32B" in name else "14B")


def _sky_steps(name: str) -> tuple[Run, ...]:
    return tuple(
        Run(name=f"{name}-{step}", files=(f"{_SKY}{name}-ckpts__checkpoint-{step}__*",), model="32B", step=step)
        for step in _STEPS
    )


SKY_T1 = DataSet(
    name="sky-t1",
    title="Sky-T1: what long solutions teach, and checkpoints of two trainings",
    about="A 14B and a 32B model, fine-tuned on 5,000 solutions: right and long, right and short, wrong, with some of "
    "their numbers corrupted, or with some of their reflections removed; one greedy sample a problem, judged by the "
    "script of Qwen2.5-Math. The 32B model on long right solutions is its last checkpoint, 140.",
    repositories=("NovaSky-AI/SkyThought",),
    runs=(
        Run(name="Qwen2.5-14B-Instruct", files=("NovaSky-AI+SkyThought/Qwen2.5-14B-Instruct__*.jsonl",), model="14B"),
        _sky("correct-5K-14B"),
        _sky("wrong-5K-14B"),
        Run(
            name="correct-5K-32B-short",
            files=tuple(f"{_SKY}correct-5K-32B-short-ckpts__{task}_*" for task in ("aime24", "amc23", "math500", "o*")),
            model="32B",
        ),
        *(_sky(f"corrupt-{share}-32B") for share in (0.2, 0.5, 0.7)),
        *(_sky(f"reflection-{share}-32B") for share in (0.2, 0.5, 1.0)),
        *_sky_steps("correct-5K-32B"),
        *_sky_steps("correct-5K-32B-short"),
    ),
    comparisons=(
        ("Qwen2.5-14B-Instruct", "correct-5K-14B"),
        ("wrong-5K-14B", "correct-5K-14B"),
        ("correct-5K-32B-short", "correct-5K-32B-140"),
        *(("correct-5K-32B-140", f"corrupt-{share}-32B") for share in (0.2, 0.5)),
        *(("correct-5K-32B-140", f"reflection-{share}-32B") for share in (0.2, 0.5, 1.0)),
        *(("corrupt-0.2-32B", f"corrupt-{share}-32B") for share in (0.5, 0.7)),
        *(("reflection-0.2-32B", f"reflection-{share}-32B") for share in (0.5, 1.0)),
    ),
    curves={
        f"Sky-T1 {name}": tuple(f"{name}-{step}" for step in _STEPS)
        for name in ("correct-5K-32B", "correct-5K-32B-short")
    },
)

_RLVR = "Jinghaoleven+RLVR-Schedule/evaluation"
_QUESTA = f"{_RLVR}/results/qwen3-4b-instruct"

RLVR_SCHEDULE = DataSet(
    name="rlvr-schedule",
    title="RLVR-Schedule: does a curriculum make GRPO better?",
    about="Polaris-4B and Qwen3-4B-Instruct, their GRPO variants and a fine-tuning on partial solutions (QuestA), "
    "judged by the script of Polaris; one sample a problem.",
    repositories=("Jinghaoleven/RLVR-Schedule",),
    runs=(
        Run(name="Polaris-4B", files=(f"{_RLVR}/Base/Polaris-4B/*",), model="4B"),
        Run(name="GRPO", files=(f"{_RLVR}/Base/GRPO-base/*",), model="4B"),
        Run(name="GRPO-curriculum", files=(f"{_RLVR}/Base/GRPO-curriculmn/*",), model="4B"),
        Run(name="Base", files=(f"{_RLVR}/results/Base/*",), model="4B"),
        Run(name="Qwen3-4B-T0.6", files=(f"{_RLVR}/results/qwen3-4b/*",), model="4B", temperature=0.6),
        Run(name="SFT", files=(f"{_QUESTA}/SFT-QuestA-25/*",), model="4B"),
        Run(name="GRPO-after-SFT", files=(f"{_QUESTA}/GRPO-Pro-wSFT-QuestA-25/a*[345]-0*",), model="4B"),
        Run(name="GRPO-after-SFT-1.0", files=(f"{_QUESTA}/GRPO-Pro-wSFT-1.0-QuestA-25/a*[345]-0*",), model="4B"),
        Run(name="GRPO-on-QuestA", files=(f"{_RLVR}/results/GRPO-Pro-QuestA-25/a*[345]-0*",), model="4B"),
        Run(name="GRPO-on-QuestA-4gpu", files=(f"{_RLVR}/results/GRPO-Pro-QuestA-25-4gpu/a*[345]-0*",), model="4B"),
        *(
            Run(
                name=f"{name}-system-prompt",
                files=(f"{_RLVR}/results/{path}/aime24-system*",),
                model="4B",
                remark="the prompts hold the instruction alone and no problem: all 30 answers are to nothing",
            )
            for name, path in (
                ("GRPO-after-SFT", "qwen3-4b-instruct/GRPO-Pro-wSFT-QuestA-25"),
                ("GRPO-after-SFT-1.0", "qwen3-4b-instruct/GRPO-Pro-wSFT-1.0-QuestA-25"),
                ("GRPO-on-QuestA", "GRPO-Pro-QuestA-25"),
                ("GRPO-on-QuestA-4gpu", "GRPO-Pro-QuestA-25-4gpu"),
            )
        ),
        Run(name="oat-GRPO", files=("Jinghaoleven+RLVR-Schedule/eval/model_results/xcombined-pro-grpo_*",)),
        Run(name="oat-GRPO-v2.4", files=("Jinghaoleven+RLVR-Schedule/eval/model_results/xcombined-pro-grpo-v2.4*",)),
    ),
    comparisons=(
        ("GRPO", "GRPO-curriculum"),
        ("Polaris-4B", "GRPO"),
        ("Polaris-4B", "GRPO-curriculum"),
        ("SFT", "GRPO-after-SFT"),
        ("SFT", "GRPO-after-SFT-1.0"),
        ("Base", "SFT"),
        ("Base", "GRPO-on-QuestA"),
        ("GRPO-on-QuestA", "GRPO-on-QuestA-4gpu"),
        ("oat-GRPO", "oat-GRPO-v2.4"),
    ),
)

_LIMO = "bkubwimana+tegra_monitor/eval/sweep_results/sweep_tokens_{0}/**/*.jsonl"
_AREAL = "inclusionAI+AReaL/logs"

_UNFINISHED = "stopped early; problems that had ended by then are the easy ones, and no score of the benchmark"

AIME = DataSet(
    name="aime-repeats",
    title="AIME with token budgets, two samples, and evaluations that were stopped early",
    about="DeepScaleR-1.5B under seven token budgets, one sample a problem; OpenMath-Nemotron-1.5B with two; and the "
    "problems that had finished when evaluations with 32 samples were stopped.",
    repositories=("bkubwimana/tegra_monitor", "inclusionAI/AReaL"),
    runs=(
        *(
            Run(name=f"budget-{tokens}", files=(_LIMO.format(tokens),), model="1.5B", temperature=0.6)
            for tokens in (128, 256, 512, 1024, 2048, 4096, 8192)
        ),
        Run(name="nemotron-2-samples", files=(f"{_AREAL}/eval_aime24/salloc*/rollout/0/*.jsonl",), model="1.5B"),
        *(
            Run(
                name=f"{model}-{task}",
                files=(f"{_AREAL}/eval_{task}/*-{model}_base/rollout/0/*",),
                model="1.5B",
                remark=_UNFINISHED,
            )
            for task in ("aime24", "aime25", "hmmt_feb_2025", "olympiad_bench")
            for model in ("nemotron", "deepscaler")
        ),
    ),
    comparisons=(
        *((f"budget-{low}", f"budget-{2 * low}") for low in (128, 256, 512, 1024, 2048, 4096)),
        *((f"nemotron-{task}", f"deepscaler-{task}") for task in ("aime24", "aime25")),
    ),
)

_VERL = "xiezijun714-lang+verl/val_outputs"

CHECKPOINTS = DataSet(
    name="checkpoints",
    title="Checkpoints: two trainings by their printed means, and one by verl's validations",
    about="Two trainings of a 4B model (open-instruct) of which metrics are public and samples are not: AIME 2025, 32 "
    "samples a problem, and MATH-500, one. And the first twelve steps of a search agent, by verl's own verdicts, as "
    "its questions are no mathematics.",
    repositories=("allenai/open-instruct", "xiezijun714-lang/verl"),
    runs=tuple(
        Run(name=f"search-{step}", files=(f"{_VERL}/{step}.jsonl",), step=step, grader="verl-reported", set="search-qa")
        for step in (0, 6, 12)
    ),
    comparisons=(("search-0", "search-6"), ("search-0", "search-12")),
    printed="allenai+open-instruct/cse-579-experiments/results",
)
