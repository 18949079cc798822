"""An engine that knows the answers: known success rates, lengths and faults, without a model.

    success: {aime24: 0.25, "*": 0.5}    # share of right answers: one number, or by task or problem id ("*": all else)
    right: 'The answer is \\boxed{gold}.' # "gold" in braces is replaced
    wrong: ["982451653", "961748941"]    # answers that no problem has
    truncated: 0.1                       # share cut off before an answer, out of what is not right
    median_tokens: 200                   # lengths are log-normal, a byte is a token
    spread: 0.5                          # standard deviation of the log of the length
    crash_after: 1000                    # faults: the engine dies after so many samples of this process,
    duplicates: 0.01                     #         returns this share of samples twice,
    delay_s: 0.001                       #         takes so long over each,
    token_s: 0.0001                      #         and so long over each token, of up to 16 sequences at once

What a request gets is a function of its seed and the script. ``--engine scripted --ckpt script.yaml`` runs one.
"""

import hashlib
import json
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from heapq import heappop, heappush
from itertools import count, islice
from pathlib import Path

from stapo_bench.engines.feed import arrived
from stapo_bench.engines.options import EngineOptions
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Completion, Request, SamplingParams
from stapo_bench.tasks import read_foreign_yaml

Golds = Mapping[tuple[str, str], str]
"""(task, problem_id) -> the answer as the grader compares it."""

_WINDOW = 16  # sequences at once; each ends as its tokens are there, as in an engine that batches
_STEP = 16  # tokens after which it looks for requests that have arrived meanwhile
_FAULTS = ("crash_after", "duplicates", "delay_s", "token_s")  # change what happens, not what a sample is


@dataclass(frozen=True, kw_only=True)
class Script:
    """What the engine is to do; the fields are described at the top of this module."""

    success: float | Mapping[str, float] = 0.5
    right: str = "So the answer is \\boxed{gold}."
    # Primes above 9e8: no problem's answer, and no other notation of an integer of contest size.
    wrong: tuple[str, ...] = ("982451653", "961748941", "941083987")
    truncated: float = 0.0
    median_tokens: float = 200.0
    spread: float = 0.5
    crash_after: int | None = None
    duplicates: float = 0.0
    delay_s: float = 0.0
    token_s: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.wrong, tuple) or not isinstance(self.right, str):
            raise TypeError("expected a text for right and a list of texts for wrong")
        if self.crash_after is not None and type(self.crash_after) is not int:
            raise TypeError(f"crash_after: expected a whole number, got {self.crash_after!r}")
        if not all(
            math.isfinite(value) and value >= 0
            for value in (self.spread, self.delay_s, self.token_s, self.median_tokens)
        ):
            raise ValueError("expected spread, delay_s, token_s and median_tokens from 0 up")
        rates = self.success if isinstance(self.success, Mapping) else {"*": self.success}
        most = 1 - self.truncated
        for name, rate in rates.items():
            if not 0 <= rate <= most + 1e-9:  # 1 - 0.9 is a little less than 0.1
                raise UsageError(f"script: success {name}: expected 0 to {most:g} (1 - truncated), got {rate}")
        if not 0 <= self.truncated <= 1 or not 0 <= self.duplicates <= 1:
            raise UsageError("script: truncated and duplicates: expected shares from 0 to 1")
        if not self.median_tokens > 0 or not self.wrong:
            raise UsageError("script: expected median_tokens above 0 and at least one wrong answer")

    def success_rate(self, task: str, problem_id: str) -> float:
        """The rate of the problem, else of its task, else of ``*``."""
        if not isinstance(self.success, Mapping):
            return self.success
        for name in (problem_id, task, "*"):
            if name in self.success:
                return self.success[name]
        raise StapoError(f"script: success has no rate for {task} {problem_id}: add '{task}' or '*'")


def load_script(path: Path) -> Script:
    """Read a script from YAML; unknown keys are refused."""
    content = read_foreign_yaml(path)
    known = [field.name for field in fields(Script)]
    if not isinstance(content, dict) or not set(content) <= set(known):
        raise UsageError(f"{path}: expected a mapping with keys among {', '.join(known)}")
    if isinstance(content.get("wrong"), list):
        content["wrong"] = tuple(map(str, content["wrong"]))
    try:
        return Script(**content)
    except (TypeError, ValueError, AttributeError) as error:  # a value of another type, met where it is compared
        raise UsageError(f"{path}: a value of the wrong type: {error}") from None


class ScriptedEngine:
    """Answers as its script says; see the module's docstring."""

    continues_exactly = True  # what a request gets does not depend on the limit, except where it is cut

    takes = frozenset({"golds", "ray", "replicas"})  # it has to know what is right
    at_once = _WINDOW

    def __init__(self, script: Script, golds: Golds) -> None:
        """``golds``: the answers of all problems that it is to be asked."""
        self._script = script
        self._golds = golds
        self._num_generated = 0

    @classmethod
    def open(cls, checkpoint: Path, options: EngineOptions) -> "ScriptedEngine":
        """``checkpoint``: the script's YAML file."""
        return cls(load_script(checkpoint), {} if options.golds is None else options.golds)

    @classmethod
    def declared_identity(cls, checkpoint: Path, options: EngineOptions) -> dict[str, str]:
        """The whole identity: reading a script takes no time."""
        return cls.open(checkpoint, options).identity()

    def identity(self) -> dict[str, str]:
        """The script's digest without faults: a crashed run may continue under a script without them."""
        content = {name: value for name, value in asdict(self._script).items() if name not in _FAULTS}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return {"engine": "scripted", "script_sha256": digest}

    def generate(self, requests: Iterable[Request | None], params: SamplingParams) -> Iterator[Completion]:
        """Yield completions in the order in which they would end."""
        pending, number = iter(requests), count()
        running: list[tuple[int, int, int, Completion]] = []  # the token at which it ends, a number, its seed
        now = 0  # tokens of each sequence at once since the start
        due = 0.0  # when that token is, where tokens take time: late steps are made up for
        while True:
            was_idle = not running
            for request in islice(arrived(pending), _WINDOW - len(running)):
                completion = self._complete(request, params)
                heappush(running, (now + completion.num_tokens, next(number), request.seed, completion))
            if not running:
                return
            step = running[0][0] - now
            if self._script.token_s:
                step = min(step, _STEP)
                due = (time.monotonic() if was_idle else due) + step * self._script.token_s
                time.sleep(max(0.0, due - time.monotonic()))
            now += step
            if now < running[0][0]:
                continue
            _, _, seed, completion = heappop(running)
            if self._num_generated == self._script.crash_after:
                raise RuntimeError(f"scripted crash after {self._num_generated} samples")
            time.sleep(self._script.delay_s)
            self._num_generated += 1
            yield completion
            if random.Random(f"duplicate {seed}").random() < self._script.duplicates:
                yield completion

    def close(self) -> None:
        """Nothing to give back."""

    def _complete(self, request: Request, params: SamplingParams) -> Completion:
        script, rng = self._script, random.Random(request.seed)
        task, problem_id, _ = request.key
        share = rng.random()
        length = round(script.median_tokens * math.exp(script.spread * rng.gauss(0.0, 1.0)))
        wrong = rng.choice(script.wrong)
        if share < script.success_rate(task, problem_id):
            ending = script.right.replace("{gold}", "{" + self._gold(task, problem_id) + "}")
        elif share < 1 - script.truncated:
            ending = script.right.replace("{gold}", "{" + wrong + "}")
        else:
            ending, length = "", params.max_new_tokens
        thinking = "so " * ((length - len(ending)) // 3 + 1)
        ids = tuple((thinking + ending).encode())
        cut = not ending or len(ids) > params.max_new_tokens
        ids = ids[: params.max_new_tokens]
        if ids[: len(request.generated_ids)] != request.generated_ids:
            raise StapoError(f"{request.key}: expected generated ids of this script, got other ones")
        return Completion(
            key=request.key,
            text=bytes(ids).decode(errors="ignore"),
            finish_reason="length" if cut else "stop",
            num_tokens=len(ids),
            token_ids=ids,
        )

    def _gold(self, task: str, problem_id: str) -> str:
        try:
            return self._golds[task, problem_id]
        except KeyError:
            raise StapoError(f"scripted engine: no gold answer was given for {task} {problem_id}") from None
