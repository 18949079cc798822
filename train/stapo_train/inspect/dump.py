"""A mini-batch saved with the weights just before its step, read by ``replay``, ``sweep`` and ``audit``.

<dump>/model/             Hugging Face folder: the policy just before the step
<dump>/batch.safetensors  token ids, rewards and groups, advantages, the old policy's statistics
<dump>/dump.json          where it comes from
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from stapo_bench.engines.transformers import load_checkpoint
from stapo_bench.errors import StapoError
from stapo_bench.records import ToolOutput
from stapo_bench.runs import base_of, is_adapter, read_outputs
from stapo_bench.tasks import read_foreign_object, regular_file
from stapo_train.batch import Batch
from stapo_train.lora import with_adapter
from stapo_train.objective import TokenStats
from stapo_train.parse import parse_record
from stapo_train.policy import Policy
from stapo_train.train_records import Rollout
from stapo_train.whole_files import whole_folder

OPTIONAL = ("ref_log_probs", "importance", "proxy_log_probs", "batch_entropy")
"""Statistics that a dump holds where its run had them."""


@dataclass(frozen=True, kw_only=True)
class DumpedRun:
    """What a dump records of its run: the content of ``dump.json``."""

    objective: Mapping[str, Any]  # name, and settings of that objective
    seed: int
    max_new_tokens: int
    temperature: float
    config_digest: str = ""


@dataclass(frozen=True, kw_only=True)
class Dump:
    """A mini-batch, the policy just before its step, and the tokenizer."""

    batch: Batch
    policy: Policy
    tokenizer: Any
    rewards: Tensor | None = None  # [R] float64; None: an older dump, with advantages only
    group_ids: Tensor | None = None  # [R] int64; equal ids share one prompt
    about: DumpedRun


_PER_TOKEN = ("old_log_probs", "entropy", "key", *OPTIONAL)


def save_dump(
    folder: Path,
    batch: Batch,
    model: Any,
    tokenizer: Any,
    about: DumpedRun,
    *,
    rollouts: Sequence[Rollout] = (),
    weights: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a dump atomically.

    ``rollouts`` are the batch's rows; from their rewards ``replay`` can compute each objective's own advantages.
    ``weights``: the model's, where it is sharded.
    """
    prompts, responses = zip(*batch.rows, strict=True)
    stats = batch.stats
    tensors = {
        "prompt_ids": _flat(prompts),
        "prompt_lengths": torch.tensor([len(p) for p in prompts]),
        "response_ids": _flat(responses),
        "response_lengths": torch.tensor([len(r) for r in responses]),
        "row_advantages": batch.row_advantages,
        "old_log_probs": stats.old_log_probs,
        "entropy": stats.entropy,
        "key": stats.key,
    }
    if rollouts:
        tensors["rewards"] = torch.tensor([r.reward for r in rollouts], dtype=torch.float64)
        tensors["group_ids"] = torch.tensor([r.group_id for r in rollouts])
    outputs = [(row, after, told) for row in range(len(prompts)) for after, told in batch.outputs(row)]
    if outputs:
        tensors["tool_places"] = torch.tensor([(row, after, len(told)) for row, after, told in outputs])
        tensors["tool_ids"] = _flat([told for _, _, told in outputs])
    optional = {name: getattr(stats, name) for name in OPTIONAL}
    tensors |= {name: value for name, value in optional.items() if value is not None}
    with whole_folder(folder) as partial:
        model.save_pretrained(partial / "model", state_dict=weights)
        tokenizer.save_pretrained(partial / "model")
        save_file({name: value.cpu().contiguous() for name, value in tensors.items()}, partial / "batch.safetensors")
        (partial / "dump.json").write_text(json.dumps(asdict(about), indent=1) + "\n", encoding="utf-8")


def load_dump(folder: Path, micro_batch_tokens: int = 2048) -> Dump:
    """Read a dump; ``batch.stats`` are the dumped policy's, except ``old_log_probs``, the older policy's."""
    if not (folder / "dump.json").is_file():
        raise StapoError(f"{folder}: expected a dump (dump.json, batch.safetensors, model/), as --dump-rollouts writes")
    about = _about(folder / "dump.json")
    found, batch = _batch(folder / "batch.safetensors")
    model, tokenizer = _model(folder / "model")
    words, ids = (
        model.config.vocab_size,
        torch.cat([found[f"{part}_ids"] for part in ("prompt", "response", "tool") if f"{part}_ids" in found]),
    )
    if not bool(((ids >= 0) & (ids < words)).all()):
        raise StapoError(f"{folder / 'batch.safetensors'}: expected tokens of its model, below {words}, got others")
    policy = Policy(model=model, temperature=about.temperature, micro_batch_tokens=micro_batch_tokens)
    return Dump(
        batch=replace(batch, stats=policy.measure(batch)),
        policy=policy,
        tokenizer=tokenizer,
        rewards=found.get("rewards"),
        group_ids=found.get("group_ids"),
        about=about,
    )


def _model(folder: Path) -> tuple[Any, Any]:
    if not is_adapter(folder):
        return load_checkpoint(folder, dtype="float32", device="cpu")
    base = base_of(folder, None)
    model, tokenizer = load_checkpoint(base, dtype="float32", device="cpu")
    with_adapter(model, folder, str(base))
    return model, tokenizer


def _about(path: Path) -> DumpedRun:
    """What a dump records of its run, later fields left out."""
    stored = read_foreign_object(path)
    known = {field.name for field in fields(DumpedRun)}
    return parse_record(DumpedRun, {name: value for name, value in stored.items() if name in known}, str(path))


def _batch(path: Path) -> tuple[dict[str, Tensor], Batch]:
    """A dump's tensors, and the mini-batch that they are; StapoError where they are none."""
    try:
        found = load_file(regular_file(path))
        prompts = [p.tolist() for p in found["prompt_ids"].split(found["prompt_lengths"].tolist())]
        responses = [r.tolist() for r in found["response_ids"].split(found["response_lengths"].tolist())]
        lengths = found["response_lengths"]
        sequence = torch.arange(len(lengths)).repeat_interleave(lengths)
        per_token = [found[name] for name in _PER_TOKEN if name in found]
        if {len(vector) for vector in per_token} != {len(sequence)} or len(found["row_advantages"]) != len(lengths):
            raise ValueError("its tensors are of different lengths")
        batch = Batch(
            rows=tuple((tuple(p), tuple(r)) for p, r in zip(prompts, responses, strict=True)),
            starts=tuple((lengths.cumsum(0) - lengths).tolist()),
            row_advantages=found["row_advantages"],
            tool_outputs=_outputs(found, lengths.tolist()),
            stats=TokenStats(
                log_probs=found["old_log_probs"],
                old_log_probs=found["old_log_probs"],
                entropy=found["entropy"],
                advantages=found["row_advantages"][sequence],
                sequence=sequence,
                key=found["key"],
                **{name: found.get(name) for name in OPTIONAL},
            ),
        )
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split())[:200]
        raise StapoError(f"{path}: expected the tensors of a mini-batch, got damage: {reason}") from None
    return found, batch


def _outputs(found: Mapping[str, Tensor], lengths: Sequence[int]) -> tuple[tuple[ToolOutput, ...], ...]:
    """[R] what tools wrote into each row, of responses of these [R] lengths; () where the dump has none."""
    if "tool_places" not in found:
        return ()
    places = found["tool_places"].tolist()
    told = torch.split(found["tool_ids"], [count for _, _, count in places])
    rows: list[list[tuple[int, list[int]]]] = [[] for _ in lengths]
    for (row, after, _), ids in zip(places, told, strict=True):
        if row not in range(len(rows)):
            raise ValueError(f"a tool wrote into row {row} of {len(rows)}")
        rows[row].append((after, ids.tolist()))
    return tuple(map(read_outputs, rows, lengths))


def _flat(rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor([token for row in rows for token in row], dtype=torch.int64)
