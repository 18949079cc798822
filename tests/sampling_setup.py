"""Samples and tasks of an evaluation, made by hand."""

from types import SimpleNamespace

from stapo_bench.records import Gold, Problem, Prompt, Sample
from stapo_bench.sampling.eval_tasks import EvalTask


def sample(problem="p", index=0, task="a", **values):
    defaults = {"seed": 5, "completion": "so", "num_tokens": 10, "finish_reason": "stop"}
    return Sample(task=task, problem_id=problem, sample_index=index, **{**defaults, **values})


def eval_task(name, num_there, num_samples, ids=True, **more):
    problems = [Problem(task=name, problem_id=str(i), question="", gold=Gold(answer="7")) for i in range(num_there)]
    prompts = [
        Prompt(task=name, problem_id=str(i), text=f"{name}{i}?", token_ids=tuple(range(i + 1)) if ids else None)
        for i in range(num_there)
    ]
    asked = {"num_problems": num_there, "num_samples": num_samples, "prompt_format": "chat", **more}
    return EvalTask(task=SimpleNamespace(name=name), problems=problems, prompts=prompts, **asked)
