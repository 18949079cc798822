"""The records between the stages of an iteration, in the order in which they are made.

Problem + Prompt -> Rollout (ungraded) -> Rollout (graded) -> Batch -> UpdateRecord -> StepRecord
"""

from dataclasses import dataclass, field

from stapo_bench.records import FinishReason, Outcome, ToolOutput


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One completion sampled for training. Equal ``group_id`` means one prompt; the order has no meaning."""

    group_id: int
    problem_id: str
    index: int  # within the group
    seed: int  # names the rollout; all its random numbers derive from it
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]  # what the policy drew, the end-of-sequence token included where it did
    rollout_log_probs: tuple[float, ...] | None  # as the sampling engine reports them, at the sampling temperature
    text: str  # the reply as it is graded: with the words that its prompt has begun it with
    finish_reason: FinishReason
    tool_outputs: tuple[
        ToolOutput, ...
    ] = ()  # what tools wrote between its tokens: seen by the policy, never trained on
    outcome: Outcome | None = None  # None: not graded yet
    reward: float = float("nan")  # NaN: unknown, because ungraded or the grader failed

    @property
    def num_positions(self) -> int:
        """Tokens that the model reads of it: prompt, drawn tokens and the tools'."""
        told = sum(len(output.token_ids) for output in self.tool_outputs)
        return len(self.prompt_ids) + len(self.response_ids) + told


@dataclass(frozen=True, kw_only=True)
class UpdateRecord:
    """What one optimizer step did. Shares are of the mini-batch's response tokens unless the name says otherwise."""

    num_tokens: int
    num_candidates: int
    num_silenced: int
    num_kept: int
    candidate_entropy: float | None  # nats, mean over the candidates; None: there are none
    thresholds: dict[str, float]
    loss: float
    grad_norm: float  # before clipping
    ratio_mean: float
    clip_high_share: float
    clip_low_share: float
    kl_to_old: float  # nats per token, k3
    num_decisions_changed: int  # tokens on which the statistics used first and the current policy's disagreed
    num_rows_rerun: int  # rows run again to correct those decisions
    skipped: str | None  # why no step was taken; None: one was taken


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One iteration: a line of ``metrics.jsonl``. Only ``seconds`` and ``memory`` may differ when it is repeated."""

    iteration: int
    reward: float  # mean over graded rollouts
    num_rollouts: int
    num_ungraded: int
    informative_groups: float  # share of groups whose rewards differ: only those have a gradient
    response_length: float  # tokens
    truncated: float  # share of rollouts
    entropy: float  # nats, mean over response tokens, before the iteration's first update
    entropy_quantiles: dict[str, float]  # nats, by the share of response tokens below
    masked_share: float  # silenced / response tokens, over the iteration's updates
    masked_share_of_candidates: float | None  # None: no candidates
    num_tokens: int  # response tokens of all updates; so are the next two
    num_candidates: int
    num_kept: int
    candidate_entropy: float | None  # nats, mean over the candidates of all updates; None: no candidates
    thresholds: dict[str, list[float]]  # one value per update
    loss: float  # mean over updates; so are the next
    grad_norm: float  # before clipping
    ratio_mean: float  # of the tokens that were run: rollouts with advantage 0 may be left out
    clip_high_share: float  # of all response tokens
    clip_low_share: float
    kl_to_old: float  # nats per token that was run, the k3 estimate of KL(old || current)
    rollout_mismatch: float | None  # mean |log pi_trainer - log pi_engine| per token, nats; None: none reported
    num_decisions_changed: int  # tokens that the current policy decides otherwise than the old one, of all updates
    num_rows_rerun: int  # rollouts run again for that
    skipped_updates: list[str]  # why, of each update whose loss or gradient was not finite
    learning_rate: float
    num_rejected: int = 0  # rollouts left out for their mismatch with the engine
    # By the ratio r of trainer and engine per token: ``k1`` and ``k3``, KL of the engine to the trainer in nats, and
    # ``outside``, the share of r beyond icepop's bounds. Empty where the engine reports no log-probs.
    rollout_ratio: dict[str, float] = field(default_factory=dict)
    evaluation: dict[str, float] = field(default_factory=dict)  # of the weights after it, see stapo_train.evaluation
    seconds: dict[str, float] = field(default_factory=dict)  # of each stage, on the wall clock
    memory: dict[str, float] = field(default_factory=dict)  # peak, MiB, of the rank that has most
