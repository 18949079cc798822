"""Writes ``<dump>/tokens.jsonl``: response tokens of a dumped mini-batch with statistics, for use without torch.

    write_tokens(load_dump(folder), "stapo", folder)        # format: stapo_bench/report/tokens.py

``stapo-bench report --train RUN`` shows the file as text in which each token's statistics can be looked up.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from stapo_bench.presenting.report.tokens import FILE
from stapo_bench.runs import write_atomically
from stapo_train.inspect.dump import Dump
from stapo_train.inspect.replay import objective_for
from stapo_train.objective import Selection, select

MAX_RESPONSES = 64
"""Most responses written, those with most silenced tokens, then most candidates, first; keeps the file readable."""

_NUM_LIKELIEST = 5


def write_tokens(dump: Dump, name: str, folder: Path) -> Path:
    """Write the file for the objective of this name."""
    path = folder / FILE
    write_atomically(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in token_lines(dump, name)))
    return path


def token_lines(dump: Dump, name: str) -> Iterator[dict[str, Any]]:
    """The header, then one line per response."""
    selection = select(dump.batch.stats, objective_for(dump, name))
    thresholds = {key: _number(value) for key, value in selection.thresholds.items()}
    yield {"objective": name, "thresholds": thresholds}
    with torch.no_grad():
        for row in _rows(dump, selection):
            yield _response(dump, selection, row)


def _rows(dump: Dump, selection: Selection) -> list[int]:
    """Row numbers of the responses to keep, those with most silenced tokens and candidates first."""
    sequence = dump.batch.stats.sequence
    count = len(dump.batch.rows)
    silenced = torch.bincount(sequence[~selection.keep_mask], minlength=count).tolist()
    candidates = torch.bincount(sequence[selection.candidate_mask], minlength=count).tolist()
    written = [row for row, (_, response) in enumerate(dump.batch.rows) if response]
    return sorted(written, key=lambda row: (-silenced[row], -candidates[row], row))[:MAX_RESPONSES]


def _response(dump: Dump, selection: Selection, row: int) -> dict[str, Any]:
    stats, decode = dump.batch.stats, dump.tokenizer.decode
    prompt, response = dump.batch.rows[row]
    (micro,) = dump.policy.split(dump.batch, [row])
    probs = torch.softmax(dump.policy.logits(micro).float() / dump.policy.temperature, dim=-1)  # [T, V]
    top = probs.topk(min(_NUM_LIKELIEST, probs.shape[-1]))
    tokens = micro.tokens
    marks = zip(selection.keep_mask[tokens].tolist(), selection.candidate_mask[tokens].tolist(), strict=True)
    return {
        "prompt": decode(prompt),
        "advantage": _round(float(stats.advantages[tokens[0]])),
        "text": [decode([token]) for token in response],
        "prob": [_round(p) for p in stats.log_probs[tokens].exp().tolist()],
        "entropy": [_round(h) for h in stats.entropy[tokens].tolist()],
        "mark": "".join("s" if not kept else "c" if candidate else "." for kept, candidate in marks),
        "top": [
            [[decode([i]), _round(p)] for i, p in zip(indices, values, strict=True)]
            for indices, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ],
    }


def _round(value: float) -> float:
    """Round to four digits, as many as are shown, which halves the file."""
    return float(f"{value:.4g}")


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
