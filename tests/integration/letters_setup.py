"""A random model that writes letters and pieces of calls and thoughts, engines of it, and its logits beside its tokens.

Imported by ``test_settings_by_engine``. The reference is a softmax in numpy over the model's own logits.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from bench.engines import end, free_port, start_server
from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.transformers import load_checkpoint
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_train.tiny.random_model import END, random_model, save

PIECES = (
    *(f"</think>{behind}" for behind in ("", "\n", " ", ".", ",", ";")),
    *("<think>", "<think>\n"),
    *(f"<calculator>{a} * {a + 4}</calculator>" for a in range(8)),
    *(f"<calculator>{a} - " for a in range(12)),
    *(f"{a}</calculator>" for a in range(6)),
    *(f"{a}</calc" for a in range(8)),
    *(f"ulator>{behind}" for behind in ("", "\n", " ", ".", ",", ";", ")", "</")),
)
"""Tokens of several letters: thoughts that end, whole calls, and calls whose end lies across tokens or within one."""
TEXTS = (
    "\n",
    *map(chr, range(32, 127)),
    *map(chr, range(0x100, 0x100 + 204 - len(PIECES))),
    *PIECES,
)  # one a token, by its id; END's among them is written nowhere


def save_letters(folder: Path) -> Path:
    """The model's folder. Each token is a text of its own, so that none waits for the rest of a character."""
    # Defaults that would change every sample if they had a say.
    model = random_model(context_length=512, sharpness=12.0, end_ids=[END])
    save(model, folder, top_k=1, temperature=0.1, repetition_penalty=2.0)
    vocabulary = {"<end>" if i == END else text: i for i, text in enumerate(TEXTS)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", pad_token="<end>").save_pretrained(folder)
    return folder


def encoded(text: str) -> tuple[int, ...]:
    """Letter by letter, as the tokenizer does: no piece comes from a text."""
    return tuple(map(TEXTS.index, text))


def decoded(ids: Sequence[int]) -> str:
    return "".join(TEXTS[i] for i in ids if i != END)


SYSTEM = "Be terse. "
PROMPTS = tuple(f"User: {number} + {number}?\n\nAssistant: <think>" for number in range(8))
SEEDS = 16  # of each prompt
PLAIN = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=24)
RARE = 1e-4  # chance of a chi-square as large at an engine that draws right


def reference(logits: np.ndarray, params: SamplingParams) -> np.ndarray:
    """[V] probabilities of the next token by the definition: temperature, min-p, top-k, top-p of what these leave."""
    weights = np.exp((logits - logits.max()) / params.temperature)
    probs = weights / weights.sum()
    ranked = np.argsort(-probs, kind="stable")
    kept = ranked[probs[ranked] >= (params.min_p or 0.0) * probs.max()][: params.top_k]
    reached = np.cumsum(probs[kept]) / probs[kept].sum()
    nucleus = kept[: int(np.searchsorted(reached, params.top_p)) + 1]
    found = np.zeros_like(probs)
    found[nucleus] = probs[nucleus] / probs[nucleus].sum()
    return found


@dataclass(frozen=True)
class Drawn:
    """What an engine drew: one row a token."""

    tokens: np.ndarray  # [N] ids
    logits: np.ndarray  # [N, V] of the model at each
    log_probs: np.ndarray  # [N] as the engine reports them

    def disagreements(self, params: SamplingParams) -> list[str]:
        """What differs from the reference under these parameters, in words.

        Ranks: the number of draws of the r-th most probable token beside the sum of its probabilities, chi-square over
        ranks (the least probable together). Each sum's variance is at most that of a multinomial, so the bound holds.
        """
        probs = np.array([reference(row, params) for row in self.logits])
        of_drawn = probs[np.arange(len(probs)), self.tokens]
        found = []
        if outside := int((of_drawn == 0).sum()):
            found.append(f"{outside} tokens outside the cut")
        expected = np.sort(probs, axis=1)[:, ::-1].sum(axis=0)
        ranks = (probs > of_drawn[:, None]).sum(axis=1)
        observed = np.bincount(ranks, minlength=len(expected))
        last = max(1, int((expected >= 20).sum()) - 1)
        expected, observed = (np.append(one[:last], one[last:].sum()) for one in (expected, observed))
        statistic = float(((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
        if chi2.sf(statistic, last) < RARE:
            found.append(f"ranks: chi-square {statistic:.0f} at {last} degrees of freedom")
        with np.errstate(divide="ignore"):
            away = np.abs(self.log_probs - np.log(of_drawn))
        if (away > 1e-3).mean() > 1e-3:  # of a thousand one may stand on the other side of a cut, by rounding
            found.append(f"log-probs: {(away > 1e-3).sum()} others")
        return found


def look_up(model: torch.nn.Module, rows: Sequence[tuple[Sequence[int], Sequence[int], Sequence[float]]]) -> Drawn:
    """The drawn tokens of some rows with the model's logits: ids, where among them drawn ones are, their log-probs."""
    longest = max(len(ids) for ids, _, _ in rows)
    padded = torch.tensor([[*ids, *[END] * (longest - len(ids))] for ids, _, _ in rows])
    with torch.no_grad():
        logits = model(padded).logits.numpy()
    before = [np.array(places, dtype=int) - 1 for _, places, _ in rows]  # where a token is predicted
    return Drawn(
        tokens=np.array([ids[place] for ids, places, _ in rows for place in places]),
        logits=np.concatenate([row[place] for row, place in zip(logits, before, strict=True)]).astype(np.float64),
        log_probs=np.array([one for _, _, log_probs in rows for one in log_probs]),
    )


class Engines:
    """Engines by name, each opened once; both ways to ask a server ask the same one."""

    def __init__(self, checkpoint: Path, folder: Path, stack: ExitStack) -> None:
        self.checkpoint, self._folder, self._stack = checkpoint, folder, stack
        self._url = ""
        self._opened: dict[str, Any] = {}

    def options(self, name: str) -> EngineOptions:
        if name not in ("completions", "chat"):
            return EngineOptions(name=name)
        if not self._url:
            port = free_port()
            self._stack.callback(end, start_server(self.checkpoint, self._folder, port))
            self._url = f"http://127.0.0.1:{port}/v1"
        return EngineOptions(name="openai", base_urls=(self._url,), chat=name == "chat")

    def __call__(self, name: str) -> Any:
        if name not in self._opened:
            if name == "vllm":
                os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
            self._opened[name] = self._stack.enter_context(closing(open_engine(self.options(name), self.checkpoint)))
        return self._opened[name]


def make_requests() -> list[Request]:
    """A system's message before a question: messages to a server that chats, to others the ids that these become."""
    return [
        Request(
            key=SampleKey("t", str(number), seed),
            prompt=Prompt(
                task="t",
                problem_id=str(number),
                text=SYSTEM + text,
                token_ids=encoded(SYSTEM + text),
                chat={"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]},
            ),
            seed=1000 * number + seed,
        )
        for seed in range(SEEDS)
        for number, text in enumerate(PROMPTS)
    ]


class Drawer:
    """Draws once under each parameters with each engine, and looks up the model's logits."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.model = load_checkpoint(engines.checkpoint, device="cpu")[0]
        self._found: dict[tuple[str, SamplingParams], dict[SampleKey, Completion]] = {}

    def completions(self, engine: str, params: SamplingParams) -> dict[SampleKey, Completion]:
        if (engine, params) not in self._found:
            drawn = self._engines(engine).generate(make_requests(), params)
            self._found[engine, params] = {completion.key: completion for completion in drawn}
        assert self._found[engine, params].keys() == {request.key for request in make_requests()}
        return self._found[engine, params]

    def drawn(self, engine: str, params: SamplingParams) -> Drawn:
        completions = self.completions(engine, params)
        rows = []
        for request in make_requests():
            ids, completion = request.prompt.token_ids, completions[request.key]
            whole = (*ids, *completion.token_ids)
            rows.append((whole, range(len(ids), len(whole)), completion.log_probs))
        return look_up(self.model, rows)
