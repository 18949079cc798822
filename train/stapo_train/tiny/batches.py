"""Worked examples as packed tensors to pretrain on.

Several documents share a row, side by side; attention stays inside a document and positions count from its start, so
a document is read exactly as if it stood alone. Only the solution's tokens are targets: the prompts' numbers cannot
be predicted, and what a tool says in a solution is not the model's to say.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from stapo_train.tiny.problems import Example

ROW_LENGTH = 128
"""Tokens in a row; a test checks that every kind of example is shorter."""

NO_TARGET = -100  # what cross_entropy ignores
_OUTPUT = re.compile(r"(<output>.*?</output>)")


@dataclass(frozen=True, kw_only=True)
class Document:
    """One example as token ids; the solution ends with the end-of-sequence token."""

    prompt: list[int]
    solution: list[int]
    told: frozenset[int] = frozenset()  # places in the solution that a tool has written

    @property
    def targets(self) -> list[int]:
        """The solution's tokens, NO_TARGET in place of a tool's."""
        return [NO_TARGET if place in self.told else token for place, token in enumerate(self.solution)]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.solution)


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """R rows of T positions, whole documents side by side, padding at the end of each row."""

    input_ids: torch.Tensor  # [R, T] token ids
    position_ids: torch.Tensor  # [R, T] position within the document
    attention_mask: torch.Tensor  # [R, 1, T, T] True where the query (third axis) may look at the key (fourth)
    targets: torch.Tensor  # [R, T] the next token where a solution's token comes next, elsewhere NO_TARGET


def encode(tokenizer: Any, examples: Sequence[Example]) -> list[Document]:
    """Examples as token ids. No merge crosses the newline between them, so prompt and solution are encoded apart.

    A tool's outputs are encoded apart, too, as an engine does it.
    """
    prompts = tokenizer([example.prompt for example in examples])["input_ids"]
    pieces = [[piece for piece in _OUTPUT.split(example.solution) if piece] for example in examples]
    encoded = iter(tokenizer([piece for one in pieces for piece in one])["input_ids"])
    documents = []
    for prompt, one in zip(prompts, pieces, strict=True):
        solution, told = list[int](), set[int]()
        for piece in one:
            ids = next(encoded)
            if _OUTPUT.fullmatch(piece):
                told |= set(range(len(solution), len(solution) + len(ids)))
            solution += ids
        documents.append(Document(prompt=prompt, solution=[*solution, tokenizer.eos_token_id], told=frozenset(told)))
    return documents


def assign_rows(documents: Sequence[Document], row_length: int) -> list[list[Document]]:
    """Documents to rows by first-fit, longest first: close to the fewest rows that hold them."""
    rows: list[list[Document]] = []
    free: list[int] = []  # places left in each row
    for document in sorted(documents, key=len, reverse=True):
        assert len(document) <= row_length, f"a document of {len(document)} tokens in rows of {row_length}"
        row = next((i for i, places in enumerate(free) if places >= len(document)), len(rows))
        if row == len(rows):
            rows.append([])
            free.append(row_length)
        rows[row].append(document)
        free[row] -= len(document)
    return rows


def pack(documents: Sequence[Document], pad_id: int, row_length: int = ROW_LENGTH) -> PackedBatch:
    """The batch of some documents."""
    rows = assign_rows(documents, row_length)
    shape = (len(rows), row_length)
    input_ids = torch.full(shape, pad_id)
    position_ids = torch.zeros(shape, dtype=torch.long)
    document_ids = torch.full(shape, -1)  # padding is a document of its own
    targets = torch.full(shape, NO_TARGET)
    for r, row in enumerate(rows):
        start = 0
        for d, document in enumerate(row):
            end = start + len(document)
            input_ids[r, start:end] = torch.tensor(document.prompt + document.solution)
            position_ids[r, start:end] = torch.arange(len(document))
            document_ids[r, start:end] = d
            # The token before a target predicts it.
            targets[r, start + len(document.prompt) - 1 : end - 1] = torch.tensor(document.targets)
            start = end
    same_document = document_ids[:, None, :, None] == document_ids[:, None, None, :]
    causal = torch.ones(row_length, row_length, dtype=torch.bool).tril()
    return PackedBatch(
        input_ids=input_ids, position_ids=position_ids, attention_mask=same_document & causal, targets=targets
    )
