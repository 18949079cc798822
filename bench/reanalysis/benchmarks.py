"""Data sets with many problems: MATH, GSM8K, and the exams and olympiads that PRIME evaluated."""

from collections.abc import Mapping

from bench.reanalysis.record import DataSet, Run, Table

_PRIME = "PRIME-RL+PRIME/eval/scripts/eval/Qwen25-Math/evaluation/outputs/**"

PRIME = DataSet(
    name="prime",
    title="PRIME: three models by the script of Qwen2.5-Math",
    about="Llama-3.1-8B-Instruct, a fine-tuned model and Qwen2.5-Math-7B-Instruct on gaokao2023en, Minerva and "
    "OlympiadBench (675 problems); one greedy sample a problem.",
    repositories=("PRIME-RL/PRIME",),
    runs=(
        Run(name="Llama-3.1-8B-Instruct", files=(f"{_PRIME}/Meta-Llama-3.1-8B-Instruct/**/*.jsonl",), model="8B"),
        Run(name="numina_oly_orca", files=(f"{_PRIME}/all_abla_numina_oly_orca/**/*.jsonl",)),
        Run(name="Qwen2.5-Math-7B-Instruct", files=(f"{_PRIME}/Qwen2.5-Math-7B-Instruct/**/*.jsonl",), model="7B"),
    ),
    comparisons=(
        ("Llama-3.1-8B-Instruct", "numina_oly_orca"),
        ("numina_oly_orca", "Qwen2.5-Math-7B-Instruct"),
    ),
)

_RHO = "microsoft+rho/rho-1/outputs.zip/outputs"
_GPT4O = "jiaming-jiang+math-500-lm-evaluation-harness/results"
_ZERO = "yuchenlin+ZeroEval/result_dirs/math-l5"

MATH = DataSet(
    name="math",
    title="MATH: verdicts that went wrong, and models that differ in size",
    about="gpt-4o twice in lm-eval's samples, Qwen2.5-72B-Instruct by OpenCompass, four Rho-1 models on MATH-500, two "
    "models on the problems of level 5, and small files with repeated samples.",
    repositories=(
        "jiaming-jiang/math-500-lm-evaluation-harness",
        "OddFunction0205/lm-eval-math-500",
        "microsoft/rho",
        "yuchenlin/ZeroEval",
        "QwenLM/Qwen2.5-Math",
        "PrimeIntellect-ai/prime-rl",
        "PrimeIntellect-ai/verifiers",
        "NVIDIA/NeMo-Skills",
    ),
    runs=(
        *(
            Run(
                name=f"gpt-4o-{name}",
                files=(f"{_GPT4O}/{folder}/**/samples*",),
                model="gpt-4o",
                remark="most completions break off in mid-sentence, before an answer",
            )
            for name, folder in (("first", "math500_gpt4o_results.json"), ("second", "math500_gpt4o_results"))
        ),
        Run(
            name="Qwen2.5-72B-Instruct",
            files=("OddFunction0205+lm-eval-math-500/*/*.zip/*/*/math.json",),
            model="72B",
        ),
        *(
            Run(name=f"{name}-math500", files=(f"{_RHO}/{name}/minerva_math/*.jsonl",), model=name)
            for name in (
                "rho-math-1b-v0.1",
                "rho-math-7b-v0.1",
                "rho-math-1b-interpreter-v0.1",
                "rho-math-7b-interpreter-v0.1",
            )
        ),
        Run(name="Qwen2.5-3B-Instruct", files=(f"{_ZERO}/Qwen2.5-3B-Instruct.json",), model="3B"),
        Run(name="Qwen2.5-7B-Instruct", files=(f"{_ZERO}/Qwen2.5-7B-Instruct.json",), model="7B"),
        Run(name="Qwen2.5-Math-8-samples", files=("QwenLM+Qwen2.5-Math/**/math_cot_100.jsonl",)),
        Run(name="prime-rl-8-samples", files=("PrimeIntellect-ai+prime-rl/tests/units/example_rewards.json",)),
        Run(name="nemo-skills-3-samples", files=("NVIDIA+NeMo-Skills/tests/data/output-rs[012].test",)),
        *(
            Run(name=f"math-python-{run[:4]}", files=(f"PrimeIntellect-ai+verifiers/**/{run}/results.jsonl",))
            for run in (
                "25f52552",
                "49a7458f",
                "578769a7",
                "6b596d7f",
                "6bcfbfcb",
                "976454fe",
                "97cb0229",
                "dbaac595",
                "cb7a1799",
            )
        ),
    ),
    comparisons=(
        ("gpt-4o-first", "gpt-4o-second"),
        ("rho-math-1b-v0.1-math500", "rho-math-7b-v0.1-math500"),
        ("rho-math-7b-v0.1-math500", "rho-math-7b-interpreter-v0.1-math500"),
        ("Qwen2.5-3B-Instruct", "Qwen2.5-7B-Instruct"),
    ),
)

_TORA = "microsoft+ToRA/src/outputs/llm-agents"
_SOLUTIONS = "openai+grade-school-math/grade_school_math/data/example_model_solutions.jsonl"
_EVALSCOPE = "modelscope+evalscope/examples/viz"
_SYSTEMS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")

GSM8K = DataSet(
    name="gsm8k",
    title="GSM8K: a thousand problems a model, and ten",
    about="GPT-3 with and without verification, four Rho-1 models and two ToRA models on all 1,319 problems; the "
    "examples of evalscope (10 problems) and of verifiers (50); rollouts of one step of a training with verl.",
    repositories=(
        "openai/grade-school-math",
        "microsoft/rho",
        "microsoft/ToRA",
        "modelscope/evalscope",
        "PrimeIntellect-ai/verifiers",
        "ZyQiu6/verl_dev",
        "UKGovernmentBEIS/inspect_ai",
    ),
    runs=(
        *(
            Run(
                name=f"GPT-3-{name}",
                files=(_SOLUTIONS,),
                model=f"GPT-3 {name.split('_')[0].upper()}",
                system=name,
            )
            for name in _SYSTEMS
        ),
        *(
            Run(name=f"{name}-gsm8k", files=(f"{_RHO}/{name}/gsm8k/*.jsonl",), model=name)
            for name in (
                "rho-math-1b-v0.1",
                "rho-math-7b-v0.1",
                "rho-math-1b-interpreter-v0.1",
                "rho-math-7b-interpreter-v0.1",
            )
        ),
        Run(name="tora-70b", files=(f"{_TORA}/tora-70b-v1.0/gsm8k/*.jsonl",), model="70B", stated=0.843),
        Run(name="tora-code-34b", files=(f"{_TORA}/tora-code-34b-v1.0/gsm8k/*.jsonl",), model="34B", stated=0.807),
        *(
            Run(name=f"evalscope-{path.split('/')[-1]}", files=(f"{_EVALSCOPE}/{folder}/reviews/{path}/*.jsonl",))
            for folder, path in (
                ("20250117_154856", "Qwen2.5-7B-Instruct"),
                ("qwen2.5-14b-instruct", "qwen2.5-14b-instruct"),
                ("qwen-plus", "qwen-plus"),
                ("qwen3-max", "qwen3-max"),
            )
        ),
        Run(
            name="verifiers-gpt-4.1-mini",
            files=("PrimeIntellect-ai+verifiers/environments/gsm8k/**/results.jsonl",),
            remark="every completion in the file is empty, so its score of 0 is no model's",
        ),
        Run(name="verl-step-1", files=("ZyQiu6+verl_dev/1.jsonl",)),
    ),
    comparisons=(
        ("GPT-3-6b_finetuning", "GPT-3-6b_verification"),
        ("GPT-3-6b_verification", "GPT-3-175b_finetuning"),
        ("GPT-3-175b_finetuning", "GPT-3-175b_verification"),
        ("rho-math-1b-v0.1-gsm8k", "rho-math-7b-v0.1-gsm8k"),
        ("rho-math-7b-v0.1-gsm8k", "rho-math-7b-interpreter-v0.1-gsm8k"),
        ("tora-code-34b", "tora-70b"),
        ("evalscope-qwen-plus", "evalscope-qwen3-max"),
    ),
    tables=(
        Table(
            title="Qwen2.5-7B-Instruct → DeepSeek-R1-Distill-Qwen-7B",
            file="UKGovernmentBEIS+inspect_ai/gsm8k_reasoning_non_reasoning.csv",
            item="id",
            score_a="score_match_y",
            score_b="score_match_x",
        ),
    ),
)

SETS: Mapping[str, str] = {
    "set-c9587704": "GSM8K",
    "set-f98063fe": "AMC (83)",
    "set-288b9e5b": "gaokao2023en",
    "set-36f88a92": "MATH (5,000)",
    "math-l5": "MATH level 5",
    "set-fdc11e2b": "MATH (100)",
    "set-a32e549c": "MATH (14)",
    "set-7c9dbee0": "MATH (50)",
    "set-c4053d7b": "MATH (5)",
    "set-ba47cbf3": "GSM8K (10)",
    "set-47538d10": "GSM8K (10)",
    "set-62c3ce77": "GSM8K (10)",
    "set-dbb96f1f": "GSM8K (50)",
    "set-04a17cbf": "GSM8K (128)",
    "set-ecb80230": "AIME24",
    "set-a7b2a3c5": "OlympiadBench (6)",
    "set-43914532": "OlympiadBench (6)",
}
"""Sets of problems that are no task of ours, by the digest of their problems."""
