"""Every engine by every setting: tokens that it drew for real beside a slow reference over the model's own logits.

transformers, vLLM in process, and `vllm serve` by completions and by chat draw some 3,000 tokens a setting of one
random model. The reference is a softmax in numpy with the cuts in the order that ``SamplingParams`` states; it is asked
for the distribution of each token that was drawn, behind what stands before it. transformers' cells run everywhere, the
others in an environment with vLLM (``scripts/integration.sh vllm``).
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams

torch = pytest.importorskip("torch")

from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

from bench.engines import end, free_port, start_server  # noqa: E402
from stapo_train.tiny.random_model import END, random_model, save  # noqa: E402

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)
ENGINES = ("transformers", *(pytest.param(name, marks=needs_vllm) for name in ("vllm", "completions", "chat")))

LETTERS = "\n" + "".join(map(chr, [*range(32, 127), *range(0x100, 0x100 + 204)]))  # one a token, END's among them
SYSTEM = "Be terse. "
PROMPTS = tuple(f"User: {number} + {number}?\n\nAssistant: <think>" for number in range(8))
SEEDS = 16  # of each prompt
PLAIN = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=24)
SETTINGS: Mapping[str, SamplingParams] = {
    "temperature 1": PLAIN,
    "temperature 0.5": replace(PLAIN, temperature=0.5),
    "top-p 0.8": replace(PLAIN, top_p=0.8),
    "top-k 5": replace(PLAIN, top_k=5),
    "min-p 0.1": replace(PLAIN, min_p=0.1),
    # In another order these would leave other tokens, or the same ones at another temperature.
    "all of them": replace(PLAIN, temperature=0.7, min_p=0.05, top_k=8, top_p=0.8),
}
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


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each token is a letter of its own, so that no text waits for the rest of a character."""
    model = random_model(context_length=512, sharpness=12.0, end_ids=[END])
    # Defaults that would change every sample if they had a say.
    folder = save(model, tmp_path_factory.mktemp("letters"), top_k=1, temperature=0.1, repetition_penalty=2.0)
    vocabulary = {"<end>" if i == END else letter: i for i, letter in enumerate(LETTERS)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", pad_token="<end>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def engines(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Engines by name, each opened once; both ways to ask a server ask the same one."""
    opened: dict[str, Any] = {}
    with ExitStack() as stack:

        def url() -> str:
            if "url" not in opened:
                port = free_port()
                stack.callback(end, start_server(checkpoint, tmp_path_factory.mktemp("server"), port))
                opened["url"] = f"http://127.0.0.1:{port}/v1"
            return opened["url"]

        def get(name: str) -> Any:
            if name not in opened:
                options = EngineOptions(name=name)
                if name == "vllm":
                    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
                if name in ("completions", "chat"):
                    options = EngineOptions(name="openai", base_urls=(url(),), chat=name == "chat")
                opened[name] = stack.enter_context(closing(open_engine(options, checkpoint)))
            return opened[name]

        yield get


def encoded(text: str) -> tuple[int, ...]:
    return tuple(map(LETTERS.index, text))


def decoded(ids: tuple[int, ...]) -> str:
    return "".join(LETTERS[i] for i in ids if i != END)


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

    def __init__(self, engines: Callable[[str], Any], checkpoint: Path) -> None:
        from stapo_bench.engines.transformers import load_checkpoint

        self._engines = engines
        self._model = load_checkpoint(checkpoint, device="cpu")[0]
        self._found: dict[tuple[str, SamplingParams], dict[SampleKey, Completion]] = {}

    def completions(self, engine: str, params: SamplingParams) -> dict[SampleKey, Completion]:
        if (engine, params) not in self._found:
            drawn = self._engines(engine).generate(make_requests(), params)
            self._found[engine, params] = {completion.key: completion for completion in drawn}
        assert self._found[engine, params].keys() == {request.key for request in make_requests()}
        return self._found[engine, params]

    def drawn(self, engine: str, params: SamplingParams) -> Drawn:
        completions = self.completions(engine, params)
        pairs = [(request, completions[request.key]) for request in make_requests()]
        whole = [(*request.prompt.token_ids, *completion.token_ids) for request, completion in pairs]
        padded = torch.tensor([[*ids, *[END] * (max(map(len, whole)) - len(ids))] for ids in whole])
        with torch.no_grad():
            logits = self._model(padded).logits.numpy()
        starts = [len(request.prompt.token_ids) - 1 for request, _ in pairs]  # where the first token is predicted
        places = [slice(start, len(ids) - 1) for start, ids in zip(starts, whole, strict=True)]
        return Drawn(
            tokens=np.concatenate([completion.token_ids for _, completion in pairs]),
            logits=np.concatenate([row[place] for row, place in zip(logits, places, strict=True)]).astype(np.float64),
            log_probs=np.concatenate([completion.log_probs for _, completion in pairs]),
        )


@pytest.fixture(scope="module")
def drawer(engines: Callable[[str], Any], checkpoint: Path) -> Drawer:
    return Drawer(engines, checkpoint)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_are_drawn_as_the_reference_says(drawer, engine, setting):
    drawn = drawer.drawn(engine, SETTINGS[setting])
    assert len(drawn.tokens) > 2500
    assert drawn.disagreements(SETTINGS[setting]) == []


@pytest.mark.parametrize("setting", list(SETTINGS)[1:])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_setting_that_does_not_arrive_is_seen(drawer, engine, setting):
    found = drawer.drawn(engine, PLAIN).disagreements(SETTINGS[setting])
    assert [line.split()[1] for line in found if "outside" in line] == ["tokens"] * (setting != "temperature 0.5")
    assert [line.split(":")[0] for line in found[-2:]] == ["ranks", "log-probs"], found


@pytest.mark.parametrize("engine", ENGINES)
def test_greedy_is_the_most_probable_token_each_time_whatever_the_seed(drawer, engine):
    greedy = replace(PLAIN, temperature=0.0)
    drawn = drawer.drawn(engine, greedy)
    assert np.array_equal(drawn.tokens, drawn.logits.argmax(axis=1))
    assert len({completion.token_ids for completion in drawer.completions(engine, greedy).values()}) == len(PROMPTS)
    plain = drawer.drawn(engine, PLAIN)
    assert (plain.tokens != plain.logits.argmax(axis=1)).mean() > 0.3  # what would be seen, were it not greedy


@pytest.mark.parametrize("engine", ENGINES)
def test_a_completion_ends_where_the_first_stop_text_is_whole(drawer, engine):
    """The same seeds without stop texts give the text that is cut; token by token, as the rule has it."""
    free = drawer.completions(engine, PLAIN)
    texts = [decoded(completion.token_ids) for completion in free.values() if completion.finish_reason == "length"]
    stop = (texts[0][9:11], texts[1][5], texts[2][12:15])  # of two, one and three letters
    stopped = drawer.completions(engine, replace(PLAIN, stop=stop))
    ends = dict.fromkeys(stop, 0)
    for key, completion in free.items():
        ids, reason = completion.token_ids, completion.finish_reason
        text = decoded(ids)
        for length in range(1, len(ids) + 1):
            begun = decoded(ids[:length])
            if ended := [one for one in stop if one in begun]:
                ids, text, reason = ids[:length], begun[: min(begun.index(one) for one in ended)], "stop"
                ends[ended[0]] += 1
                break
        found = stopped[key]
        assert (found.text, found.token_ids, found.finish_reason) == (text, ids, reason)
        assert found.num_tokens == len(ids)
    assert min(ends.values()) >= 1 and sum(ends.values()) < len(free)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_cuts_a_completion_off_and_changes_nothing_before_it(drawer, engine):
    free = drawer.completions(engine, PLAIN)
    for limit in (1, 7):
        short = drawer.completions(engine, replace(PLAIN, max_new_tokens=limit))
        for key, completion in short.items():
            assert completion.token_ids == free[key].token_ids[:limit]
            assert completion.finish_reason == ("stop" if END in completion.token_ids else "length")
    assert any(completion.finish_reason == "stop" for completion in free.values())
