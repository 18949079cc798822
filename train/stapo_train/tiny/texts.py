"""What a tiny base model may read: the worked examples of each kind, and the suite that the model is then for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stapo_train.tiny import knights, problems, products
from stapo_train.tiny.batches import ROW_LENGTH
from stapo_train.tiny.problems import Example
from stapo_train.tiny.tokenizer import DIGITS


@dataclass(frozen=True, kw_only=True)
class Text:
    """An endless text of worked examples."""

    suite: str  # what tables call the model that has read it, too
    worked_example: Callable[[int, int], Example]  # of a seed and an index
    names: str  # a pattern; what it finds is a token by itself
    row_length: int = ROW_LENGTH  # tokens that hold the longest example


TEXTS: Mapping[str, Text] = {
    "arithmetic": Text(suite="tiny", worked_example=problems.worked_example, names=DIGITS),
    "knights": Text(
        suite="tiny-kk", worked_example=knights.worked_example, names=r"[A-H](?![a-z])|[+-]", row_length=192
    ),
    "products": Text(suite="tiny-tools", worked_example=products.worked_example, names=rf"{DIGITS}|</?output>"),
}
