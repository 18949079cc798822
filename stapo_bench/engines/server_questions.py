"""Questions to a server before the first sample, of one token each.

questions = Questions(Http(None), chat=False)
page = await questions.refusal("http://host:8000/v1", "tiny", {"max_tokens": 1, "top_k": -1})
"""

from collections.abc import Mapping
from typing import Any

from stapo_bench.engines.http import Http, RefusedError
from stapo_bench.engines.server_log_probs import asking_for

TIMEOUT_S = 60.0  # for a short answer


class Questions:
    """Asks them; StapoError where a server is busy each time, as ``Http.told``."""

    def __init__(self, http: Http, chat: bool) -> None:
        self._http = http
        self._chat = chat
        self._path = "/chat/completions" if chat else "/completions"

    async def refusal(self, url: str, model: str, settings: Mapping[str, Any]) -> str | None:
        """The page with which it refuses settings; None: it answers."""
        try:
            await self._http.told(url + self._path, self._body(model, settings), TIMEOUT_S, or_why_not=True)
        except RefusedError as error:
            return error.page
        return None

    async def first_token(self, url: str, model: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The choice in its answer, with log-probabilities."""
        two = asking_for(self._chat, 2)  # of one the list may hold the token that was drawn alone
        body = self._body(model, {"max_tokens": 1, **settings, **two})
        answer = await self._http.told(url + self._path, body, TIMEOUT_S)
        choice: Mapping[str, Any] = answer["choices"][0]
        return choice

    def _body(self, model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        asked = {"messages": [{"role": "user", "content": "?"}]} if self._chat else {"prompt": "?"}
        return {"model": model, **asked, **settings}
