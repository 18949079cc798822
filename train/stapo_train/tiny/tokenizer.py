"""A byte-level BPE tokenizer of a few hundred tokens, learnt from worked examples.

Any text can be encoded: all 256 bytes are tokens. A newline never merges with anything, so the tokens of prompt and
solution do not depend on each other; nor do digits (or people's letters), so numbers are read digit by digit. Merges
may cross spaces: fixed phrases such as ``". The answer is \\boxed{"`` become one token, and completions stay short.
"""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

EOS, PAD = "<eos>", "<pad>"
DIGITS = r"\d"


def train_tokenizer(texts: Iterable[str], vocab_size: int, names: str = DIGITS) -> PreTrainedTokenizerFast:
    """Learn the merges from ``texts``; the same texts give the same tokenizer.

    Args:
        texts: what is to be encoded.
        vocab_size: number of tokens, the bytes and two special ones included.
        names: a pattern, whose every match stands alone, as a newline does.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(rf"{names}|\n"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=EOS, pad_token=PAD, clean_up_tokenization_spaces=False
    )
