"""The records that flow through the harness, in the order in which they are made.

    Task -> Problem -> Prompt -> Request -> Completion -> Sample -> Grade -> TaskScore

All are frozen: a stage makes new records and changes none. Scores are fractions in [0, 1]; percent appears only in
rendered tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:  # grading alone needs no numpy
    import numpy as np
    from numpy.typing import NDArray

FinishReason = Literal["stop", "length", "error"]
"""``stop``: the model ended. ``length``: the token limit cut it off (truncated). ``error``: the engine gave it up."""

DEFAULT_GRADER = "math"
"""Whose verdicts count where none is asked for."""

Origin = Literal["measured", "imported", "published"]
"""``measured``: sampled by this harness. ``imported``: sampled by another tool. ``published``: printed in a paper."""


@dataclass(frozen=True, kw_only=True)
class Gold:
    """The right answer of a problem and how it is to be read.

    ``answer_type`` is one of ``stapo_bench.grading.ANSWER_TYPES``, or None: then it is inferred from the gold alone.
    """

    answer: str
    answer_type: str | None = None
    tolerance: float | None = None  # absolute, in the answer's units; None: the type's own rule
    unit: str | None = None  # a unit that a response may write or leave out
    is_multiple: bool | None = None  # the answer lists several values, in any order; None: not stated
    question: str | None = None  # the problem's text, for graders that ask it what the bare answer leaves open


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A question with its gold. ``problem_id`` names the content, not the row: all copies of a data set agree on it."""

    task: str
    problem_id: str
    question: str
    gold: Gold
    columns: Mapping[str, Any] = field(default_factory=dict, compare=False)  # all that its row says, such as a subject

    @property
    def asked_gold(self) -> Gold:
        """The gold with the question beside it, as graders get it."""
        return replace(self.gold, question=self.question)


@dataclass(frozen=True, kw_only=True)
class StatedSampling:
    """How tokens were sampled as far as it is known; None: not known, as in a run whose samples were imported."""

    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    top_k: int | None = None  # as the next one: off, or not known
    min_p: float | None = None
    stop: tuple[str, ...] = ()  # texts before which a completion ends
    thinking_budget: int | None = None  # tokens of a reply after which thinking that goes on is ended; None: it is not
    thinking_end: str | None = None  # the text that ends it


@dataclass(frozen=True, kw_only=True)
class SamplingParams(StatedSampling):
    """How tokens are sampled; what is None is off, as penalties always are, whatever a checkpoint's defaults say.

    Of the next-token distribution at the temperature, min-p keeps the tokens with at least that share of the greatest
    probability, then top-k the k most probable; of what these leave, made to sum to 1 again, top-p keeps the nucleus.
    Temperature 0 is greedy decoding.
    """

    temperature: float
    top_p: float
    max_new_tokens: int

    @property
    def is_greedy(self) -> bool:
        """The most probable token is taken each time, so that all samples of a problem are one."""
        return self.temperature == 0


@dataclass(frozen=True, kw_only=True)
class PromptStyle:
    """What stands around a question, beside the prompt's format; what is empty is not there."""

    system: str = ""  # the system's message
    examples: tuple[tuple[str, str], ...] = ()  # (problem, answer) before the question: few-shot
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)  # of a chat template: enable_thinking
    assistant_prefix: str = ""  # the reply's first words, which the model is given; part of the completion

    def to_json(self) -> dict[str, Any]:
        """What is there, as JSON holds it."""
        parts = {**vars(self), "examples": [list(example) for example in self.examples]}
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The exact text sent for a problem, and its token ids where the engine takes ids (None: the server tokenizes)."""

    task: str
    problem_id: str
    text: str
    token_ids: tuple[int, ...] | None = None
    chat: Mapping[str, Any] | None = None
    """What a server that chats is sent in place of the text: ``messages``, ``chat_template_kwargs``. None: the text
    alone, as a user's message."""


class SampleKey(NamedTuple):
    """What identifies a sample within a run; sorts by task, problem, index."""

    task: str
    problem_id: str
    sample_index: int


@dataclass(frozen=True, kw_only=True)
class Request:
    """One completion to generate. Its seed is a function of its key, never of the batch that it happens to share."""

    key: SampleKey
    prompt: Prompt
    seed: int
    generated_ids: tuple[int, ...] = ()
    """The completion's first tokens, made earlier under a smaller limit; for engines with ``continues_exactly``."""
    max_new_tokens: int | None = None
    """Where fewer tokens are left to it than the parameters allow; for engines that go on behind a tool's output."""


class ToolOutput(NamedTuple):
    """What a tool has written into a reply: tokens that the model read and did not draw."""

    after: int  # drawn tokens that stand before it
    token_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What an engine returns for a request.

    ``token_ids`` are the generated ids, the end-of-sequence token included when the model produced it. ``log_probs``
    are the natural logs of the probabilities with which they were drawn: at the sampling temperature and after every
    cut (top-p, top-k, min-p), which leaves fewer tokens and makes each likelier; of greedy ones those at temperature 1.
    The request's ``generated_ids`` are part of the text, the ids and their number, but have no log-probs here. Both are
    None where the engine does not report them. What tools have written stands in the text, and in ``tool_outputs``
    alone: ids, log-probs and number of tokens are the model's.
    """

    key: SampleKey
    text: str
    finish_reason: FinishReason
    num_tokens: int
    token_ids: tuple[int, ...] | None = None
    log_probs: tuple[float, ...] | None = None
    seconds: float | None = None
    model: str | None = None  # the version that answered, where a server resolves the name asked for to one
    tool_outputs: tuple[ToolOutput, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A completion as it is stored: one line of ``samples/*.jsonl``.

    Seed, number of tokens and finish reason are None where an imported file does not tell them.
    """

    task: str
    problem_id: str
    sample_index: int
    seed: int | None
    completion: str
    num_tokens: int | None
    finish_reason: FinishReason | None
    token_ids: tuple[int, ...] | None = None  # kept when truncated, so that the sample can be continued
    sum_log_prob: float | None = None
    seconds: float | None = None
    stamp: str | None = None  # names the settings it was made under, see ``Manifest.stamps``; None: not stated
    model: str | None = None  # the version that answered, where a server resolves the name asked for to one
    tool_outputs: tuple[ToolOutput, ...] = ()  # in the completion, not in the number of tokens, which is the model's

    @property
    def key(self) -> SampleKey:
        """Task, problem and index."""
        return SampleKey(self.task, self.problem_id, self.sample_index)


class Outcome(str, Enum):
    """What a grader found. Unknown is not wrong: a crash or a timeout is GRADER_ERROR, never INCORRECT."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    NO_ANSWER = "NO_ANSWER"
    GRADER_ERROR = "GRADER_ERROR"


UNREAD = ("response cannot be read", "not comparable", "text, for the gold cannot be read")
"""How the ``detail`` of a verdict begins that compared texts alone, because nothing else could be compared."""


@dataclass(frozen=True, kw_only=True)
class Grade:
    """A grader's verdict on one completion. ``detail`` says which rule decided, or what went wrong."""

    outcome: Outcome
    extracted: str | None
    detail: str = ""
    grader: str = ""  # name and version

    @property
    def is_unread(self) -> bool:
        """It counts as wrong because it could not be read or compared, and its text is not the gold's.

        >>> Grade(outcome=Outcome.INCORRECT, extracted="a the", detail="response cannot be read: words").is_unread
        True
        """
        return self.outcome is Outcome.INCORRECT and self.detail.startswith(UNREAD)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """The outcomes on one task, whatever their source: all that the statistics need.

    They come from a graded run folder (``LoadedRun.outcomes``), or from counts, without the order of the samples. A run
    of several tasks is a mapping from task names to ``Outcomes``.
    """

    problem_ids: tuple[str, ...]  # names of the rows, in their order
    scores: "NDArray[np.float64]"  # [num_problems, num_samples]: from 0.0 wrong to 1.0 right, NaN where it is not known
    undecided: "NDArray[np.bool_]"  # [num_problems, num_samples]: there is a completion, but no verdict on it
    clusters: tuple[str, ...] | None = None  # [num_problems] those of one cluster belong together; None: not known

    def of(self, problem_ids: Sequence[str]) -> "Outcomes":
        """The rows of these problems, in their order; nothing is known of a problem that is not there.

        >>> found = Outcomes.of_counts({"p": (1, 2), "q": (0, 1)})
        >>> found.of(["q", "r"]).scores
        array([[ 0., nan],
               [nan, nan]])
        """
        import numpy as np

        row_of = {problem_id: row for row, problem_id in enumerate(self.problem_ids)}
        rows = np.array([row_of.get(problem_id, -1) for problem_id in problem_ids], dtype=np.int64)
        is_there = rows >= 0
        scores = np.full((len(problem_ids), self.scores.shape[1]), np.nan)
        undecided = np.zeros(scores.shape, dtype=np.bool_)
        scores[is_there], undecided[is_there] = self.scores[rows[is_there]], self.undecided[rows[is_there]]
        clusters = self.clusters and tuple(self.clusters[row] if row >= 0 else "" for row in rows.tolist())
        return Outcomes(problem_ids=tuple(problem_ids), scores=scores, undecided=undecided, clusters=clusters)

    @staticmethod
    def of_counts(counts: Mapping[str, tuple[int, int]]) -> "Outcomes":
        """From the numbers of right and decided samples by problem; right ones come first, as the order is unknown.

        >>> Outcomes.of_counts({"p": (1, 2), "q": (0, 1)}).scores
        array([[ 1.,  0.],
               [ 0., nan]])
        """
        import numpy as np

        scores = np.full((len(counts), max((decided for _, decided in counts.values()), default=0)), np.nan)
        for row, (right, decided) in zip(scores, counts.values(), strict=True):
            row[:decided] = 0.0
            row[:right] = 1.0
        return Outcomes(problem_ids=tuple(counts), scores=scores, undecided=np.zeros(scores.shape, dtype=np.bool_))
