"""The tiny base model, from nothing: a tokenizer and a small Qwen3 fitted to worked solutions, mistakes included.

    stapo-train pretrain train/configs/tiny/base.yaml [key=value ...]

``out`` becomes a Hugging Face checkpoint folder, with ``stapo.json`` beside the weights (written last: it marks the run
as finished) and one line of ``metrics.jsonl`` per step. The batch of a step is a function of the seed and the step, so
a run that was stopped resumes from its last save and ends where an unbroken run ends.

Matrices are optimised by Muon, which learns to copy numbers in about half the steps that AdamW takes here.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from stapo_bench.errors import StapoError, UsageError, tell
from stapo_bench.runs import append, complete_lines, open_own, replacing, seal, unseal, write_atomically, writing
from stapo_bench.tasks import read_foreign_object, read_foreign_yaml, regular_file
from stapo_train.optimizer_file import load_optimizer, optimizer_tensors
from stapo_train.parse import parse_record, value_of
from stapo_train.run_folder import hold_folder
from stapo_train.tiny.batches import PackedBatch, encode, pack
from stapo_train.tiny.texts import TEXTS
from stapo_train.tiny.tokenizer import train_tokenizer
from stapo_train.whole_files import writing_tensors

WARMUP_STEPS = 40
SAVE_EVERY = 50  # steps
PROGRESS_EVERY_S = 5.0
TOKENIZER_EXAMPLES = 4000

STATE_FILE = "pretrain_state.safetensors"
CONFIG_FILE = "pretrain.json"
METRICS_FILE = "metrics.jsonl"
FINISHED_FILE = "stapo.json"


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Settings of one run."""

    out: str  # the folder that becomes the checkpoint
    text: Literal["arithmetic", "knights", "products"] = "arithmetic"  # what it reads
    seed: int = 0
    steps: int
    examples_per_step: int = 40
    adamw_lr: float = 4e-3  # peak, for embeddings and norms
    muon_lr: float = 0.02  # peak, for matrices
    vocab_size: int = 384
    hidden_size: int = 128
    intermediate_size: int = 320
    num_layers: int = 4


def load_config(path: Path, overrides: Sequence[str] = ()) -> PretrainConfig:
    """Read the YAML and put ``key=value`` pairs on top; unknown keys and wrong types are refused."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file; expected a pretraining config such as train/configs/tiny/base.yaml")
    try:
        values = read_foreign_yaml(path)
        for pair in overrides:
            key, equals, _ = pair.partition("=")
            if not equals:
                raise UsageError(f"override '{pair}': expected key=value, for example steps=100")
            values[key] = value_of(pair)
    except StapoError as error:  # of the file
        raise UsageError(str(error)) from None
    config: PretrainConfig = parse_record(PretrainConfig, values, str(path))
    return config


def stored_config(out: Path) -> PretrainConfig:
    """The settings under which the folder was made; one that it is older than has its default."""
    path = out / CONFIG_FILE
    config: PretrainConfig = parse_record(PretrainConfig, {**read_foreign_object(path), "out": str(out)}, str(path))
    return config


# --- model and optimizers ---------------------------------------------------------------------------------------------


def make_tokenizer(config: PretrainConfig) -> PreTrainedTokenizerFast:
    """The tokenizer, learnt from the first examples of the run's text, which training leaves out."""
    text = TEXTS[config.text]
    examples = (text.worked_example(config.seed, index) for index in range(TOKENIZER_EXAMPLES))
    return train_tokenizer((e.prompt + e.solution for e in examples), config.vocab_size, text.names)


def make_model(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights; head_dim 32 is the smallest that vLLM's CPU attention takes."""
    torch.manual_seed(config.seed)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=None,
            **ends,
        )
    )
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, **ends)
    return model


def make_optimizers(model: Qwen3ForCausalLM, config: PretrainConfig) -> list[tuple[torch.optim.Optimizer, float]]:
    """Muon for the layers' matrices, AdamW for everything else, each with its peak learning rate."""
    layers = [parameter for parameter in model.model.layers.parameters() if parameter.ndim == 2]
    in_layers = {id(parameter) for parameter in layers}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in in_layers]
    return [
        (torch.optim.Muon(layers, weight_decay=0.01), config.muon_lr),
        (torch.optim.AdamW(rest, betas=(0.9, 0.98), weight_decay=0.01), config.adamw_lr),
    ]


def schedule(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear warm-up, then a cosine that falls to zero. Steps count from 0.

    >>> [round(schedule(step, steps=240), 3) for step in (0, 39, 40, 140, 239)]
    [0.025, 1.0, 1.0, 0.5, 0.0]
    """
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP_STEPS) / (steps - WARMUP_STEPS)))


def batch_of_step(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, step: int) -> PackedBatch:
    """The batch of a step: fresh text, none of which the tokenizer was learnt from."""
    first = TOKENIZER_EXAMPLES + step * config.examples_per_step
    text = TEXTS[config.text]
    examples = [text.worked_example(config.seed, index) for index in range(first, first + config.examples_per_step)]
    return pack(encode(tokenizer, examples), tokenizer.pad_token_id, text.row_length)


def batch_loss(model: Qwen3ForCausalLM, batch: PackedBatch) -> torch.Tensor:
    """Mean negative log-likelihood of the batch's targets, in nats."""
    hidden = model.model(
        input_ids=batch.input_ids, position_ids=batch.position_ids, attention_mask=batch.attention_mask
    ).last_hidden_state
    has_target = batch.targets >= 0
    return F.cross_entropy(model.lm_head(hidden[has_target]), batch.targets[has_target])


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Run:
    """What changes during a run, and what is saved of it."""

    model: Qwen3ForCausalLM
    optimizers: list[tuple[torch.optim.Optimizer, float]]
    step: int = 0  # steps done

    def advance(self, batch: PackedBatch, learning_rate_share: float) -> float:
        """One optimizer step; returns the loss before it."""
        loss = batch_loss(self.model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, peak in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * learning_rate_share
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return loss.item()

    def save(self, path: Path) -> None:
        """Save atomically: a kill leaves the previous save."""
        tensors = {f"weight/{name}": weight.detach() for name, weight in self.model.named_parameters()}
        for optimizer, _ in self.optimizers:
            tensors |= optimizer_tensors(self.model, optimizer)
        with replacing(path) as beside, writing_tensors(path):
            save_file({"step": torch.tensor(self.step), **tensors}, beside)

    def restore(self, path: Path) -> None:
        """The reverse of ``save``; StapoError where the file is damaged."""
        try:
            tensors = load_file(regular_file(path))
        except SafetensorError as error:
            raise StapoError(f"{path}: expected a saved run, got damage: {error}; delete it to begin anew") from None
        self.step = int(tensors.pop("step"))
        for name, weight in self.model.named_parameters():
            weight.data.copy_(tensors.pop(f"weight/{name}"))
        for optimizer, _ in self.optimizers:
            load_optimizer(self.model, optimizer, tensors)


def pretrain(config: PretrainConfig) -> Path:
    """Make the checkpoint folder ``config.out``, or finish making it, and return its path.

    Raises:
        StapoError: the folder cannot be written, or holds a run under other settings.
    """
    out = Path(config.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = hold_folder(out)
    except OSError as error:
        raise StapoError(f"{out}: cannot write there ({error.strerror}); choose another with out=DIR") from None
    try:
        _claim(out, config)
        return _pretrain(out, config)
    finally:
        lock.release()


def _pretrain(out: Path, config: PretrainConfig) -> Path:
    """``pretrain`` in a folder that this process holds."""
    if (out / FINISHED_FILE).exists():
        tell(sys.stderr, f"{out}: finished before, {config.steps}/{config.steps} steps; nothing to do")
        return out
    tokenizer = make_tokenizer(config)
    model = make_model(config, tokenizer)
    run = Run(model=model, optimizers=make_optimizers(model, config))
    if (out / STATE_FILE).exists():
        run.restore(out / STATE_FILE)
        tell(sys.stderr, f"{out}: going on after step {run.step}/{config.steps}")
    disable_progress_bar()  # a bar per file, beside our own line
    with _metrics_from(out / METRICS_FILE, run.step) as metrics:
        _train(run, config, tokenizer, metrics)
    with writing_tensors(out):
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
    facts = {"method": "Base", "objective": None, "base": TEXTS[config.text].suite, "step": config.steps}
    write_atomically(out / FINISHED_FILE, json.dumps(facts) + "\n")
    (out / STATE_FILE).unlink(missing_ok=True)
    tell(sys.stderr, f"{out}: {config.steps}/{config.steps} steps done")
    return out


def _train(run: Run, config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, metrics: BinaryIO) -> None:
    began, first_step, last_shown = time.monotonic(), run.step, 0.0
    while run.step < config.steps:
        share = schedule(run.step, config.steps)
        loss = run.advance(batch_of_step(config, tokenizer, run.step), share)
        seconds = time.monotonic() - began
        with writing(Path(config.out) / METRICS_FILE):
            append(metrics, seal({"step": run.step, "loss": loss, "seconds": round(seconds, 3)}))
        if run.step % SAVE_EVERY == 0 or run.step == config.steps:
            run.save(Path(config.out) / STATE_FILE)
        if seconds - last_shown >= PROGRESS_EVERY_S:
            last_shown = seconds
            left = seconds / (run.step - first_step) * (config.steps - run.step)
            tell(sys.stderr, f"pretrain {run.step}/{config.steps}  loss {loss:.3f} nats  about {left:.0f} s left")


def _claim(out: Path, config: PretrainConfig) -> None:
    """Write the settings into the folder, or check that it was made under these."""
    settings = {key: value for key, value in asdict(config).items() if key != "out"}
    path = out / CONFIG_FILE
    if not path.exists():
        # Only another text than arithmetic is named: the published base model is older than the choice, byte for byte.
        named = {key: value for key, value in settings.items() if (key, value) != ("text", "arithmetic")}
        write_atomically(path, json.dumps(named) + "\n")
    there = asdict(stored_config(out))
    different = [f"{key} {there[key]} there, {value} here" for key, value in settings.items() if there[key] != value]
    if different:
        raise StapoError(f"{out}: made under other settings ({'; '.join(different)}); choose another with out=DIR")


@contextmanager
def _metrics_from(path: Path, steps_done: int) -> Iterator[BinaryIO]:
    """The metrics file, open to append, cut back to the steps that the saved state knows of."""
    kept = []
    for number, line in islice(complete_lines(path), steps_done) if path.exists() else ():
        try:
            unseal(line)
        except ValueError as error:
            raise StapoError(f"{path}:{number}: {error}; restore the file, or begin anew with out=OTHER") from None
        kept.append(line.decode("ascii"))
    write_atomically(path, "".join(kept))  # not through the file below: a kill would lose what waits in its buffer
    with open_own(path.parent, path.name) as metrics:
        yield metrics
