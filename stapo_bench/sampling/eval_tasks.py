"""The tasks of an evaluation with their prompts, laid out as requests in an order that is fair to all problems."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stapo_bench.engines import ToolUse
from stapo_bench.records import Problem, Prompt, PromptStyle, Request, SampleKey
from stapo_bench.runs import KeySet
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import Task


@dataclass(frozen=True, kw_only=True)
class EvalTask:
    """One task of an evaluation: all its prompts, and how much of it is asked for."""

    task: Task
    problems: list[Problem]  # all of the task
    prompts: list[Prompt]  # one per problem
    prompt_format: str
    num_problems: int  # the first of them are asked for
    num_samples: int  # of each problem
    style: PromptStyle = field(default_factory=PromptStyle)
    tool: ToolUse | None = None  # that its replies may call

    @property
    def num_keys(self) -> int:
        """Samples that are asked for."""
        return self.num_problems * self.num_samples


def sample_keys(eval_tasks: Sequence[EvalTask], shard: tuple[int, int] = (0, 1)) -> Iterator[tuple[SampleKey, Prompt]]:
    """Every key of a shard in rounds: sample j of every problem before sample j + 1 of any.

    So the first rounds of a run are a fair estimate; a part of a round is not, for its short completions end first. Key
    number p of round j belongs to shard (p + j) mod n: each key to exactly one, and every shard meets every problem.
    """
    index, num_shards = shard
    for round_ in range(max((one.num_samples for one in eval_tasks), default=0)):
        prompts = (p for one in eval_tasks if round_ < one.num_samples for p in one.prompts[: one.num_problems])
        for position, prompt in enumerate(prompts):
            if (position + round_) % num_shards == index:
                yield SampleKey(prompt.task, prompt.problem_id, round_), prompt


def most_positions(eval_tasks: Sequence[EvalTask], max_new_tokens: int) -> int | None:
    """Tokens of the longest prompt that is asked and of its longest completion; None: the engine counts them."""
    prompts = [prompt for one in eval_tasks for prompt in one.prompts[: one.num_problems]]
    lengths = [len(prompt.token_ids) for prompt in prompts if prompt.token_ids is not None]
    return max(lengths) + max_new_tokens if lengths and len(lengths) == len(prompts) else None


def requests(eval_tasks: Sequence[EvalTask], run_seed: int, shard: tuple[int, int] = (0, 1)) -> Iterator[Request]:
    """The requests for a shard's keys, in their order."""
    for key, prompt in sample_keys(eval_tasks, shard):
        yield Request(key=key, prompt=prompt, seed=derive_seed(run_seed, *key))


def count_samples(
    eval_tasks: Sequence[EvalTask], shard: tuple[int, int], among: KeySet | None = None
) -> dict[str, int]:
    """Samples of a shard by task: all, or those among the given keys."""
    counts = {one.task.name: 0 for one in eval_tasks}
    for key, _ in sample_keys(eval_tasks, shard):
        counts[key.task] += among is None or key in among
    return counts
