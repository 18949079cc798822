"""Log-probabilities in the answers of servers: taken where they are those with which tokens were drawn, else not.

A server may give them before the temperature and the cuts, or after; which, it does not tell (vLLM's
``--logprobs-mode raw_logprobs``, its default, or ``processed_logprobs``). So it is asked for one token, thrice.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

_SURE = -0.05  # nats; a first token more probable than this shows nothing
_ALMOST_0 = -1e-3

AskFirst = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""(settings) -> the choice that a server answers with, of one token and with the log-probability of the best one."""


async def gives_as_drawn(ask: AskFirst) -> bool:
    """Whether a server's log-probabilities are at the temperature and of what the cuts leave.

    The best token's has to be lower at temperature 2 than at 1, and 0 where top-p leaves no other. An answer without
    them is no; no answer at all is what ``ask`` raises.
    """
    try:
        plain, hot, cut = [
            _best(await ask({"temperature": temperature, "top_p": top_p}))
            for temperature, top_p in ((1.0, 1.0), (2.0, 1.0), (2.0, 1e-6))
        ]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return False
    return plain < _SURE and hot < plain + 10 * _ALMOST_0 and cut > _ALMOST_0


def asking_for(chat: bool, best: int = 0) -> dict[str, Any]:
    """What a request says to have log-probabilities, and those of so many best tokens."""
    return {"logprobs": True, "top_logprobs": best} if chat else {"logprobs": best}


def log_probs_of(choice: Mapping[str, Any], num_tokens: int) -> tuple[float, ...] | None:
    """Those of the tokens that were drawn; None where they are not there for each, or are no log-probabilities."""
    try:
        found = _drawn(choice["logprobs"])
        return tuple(found) if len(found) == num_tokens and all(-math.inf < one <= 0 for one in found) else None
    except (KeyError, TypeError):
        return None


def _drawn(told: Mapping[str, Any]) -> Sequence[float]:
    """Of a chat's answer they are objects, of a completion's numbers."""
    return [token["logprob"] for token in told["content"]] if "content" in told else told["token_logprobs"]


def _best(choice: Mapping[str, Any]) -> float:
    told = choice["logprobs"]
    if "content" in told:
        return max(float(token["logprob"]) for token in told["content"][0]["top_logprobs"])
    return max(map(float, told["top_logprobs"][0].values()))
