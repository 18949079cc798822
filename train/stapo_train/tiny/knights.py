"""Worked puzzles of knights and knaves, to pretrain a tiny model on: guesses, each checked person by person.

A guess gives everybody a sign, + for a knight. A check writes a person's statement again with the signs of whom it
names, the sign of the whole, and whether that is the person's own; after the first "no" another guess is made. Guesses
are as often right as wrong, some checks err, and some solutions check nothing: reward can teach to check, to check
rightly, and to guess again. Wordings, slips and typos are those of the arithmetic in ``problems``.

>>> worked_example(seed=0, index=2).solution
'Let us see: A+B+: A: B+ = + yes, B: A+ or not B+ = + yes, so \\\\boxed{A, B}'
"""

import random
import re
import string
from itertools import islice, product

from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import kk, kk_brief
from stapo_train.tiny.problems import (
    CLOSINGS,
    CONNECTORS,
    DIRECT_CLOSINGS,
    OPENINGS,
    SLIP_RATE,
    TYPO_RATE,
    Example,
    pick,
)

PEOPLE = (2, 4)
"""Fewest and most people of a puzzle to pretrain on."""
RIGHT_SHARE = 0.5
"""Share of the guesses that are the solution; the others are drawn from all that name a knight."""
MISTAKE_RATE = 0.05
"""Share of the checks that say the opposite."""
DIRECT_SHARE = 0.2
"""Share of the solutions that are a guess alone."""
MAX_GUESSES = 3

Knights = tuple[bool, ...]


def worked_example(seed: int, index: int) -> Example:
    """Example number ``index`` of the endless pretraining text: a function of both numbers alone.

    Its puzzle is of the split that training by reward draws from, too: those of two people are too few to share out.
    """
    rng = random.Random(derive_seed(seed, "tiny-kk-pretrain", index))
    (puzzle,) = islice(kk.draw(rng, "train", rng.randint(*PEOPLE)), 1)
    question, _ = kk_brief.words(puzzle)
    return Example(prompt=question + "\n", solution=worked_solution(rng, puzzle))


def worked_solution(rng: random.Random, puzzle: kk.Puzzle) -> str:
    """A solution in random words, not always right, ending in a box."""
    guess = _guess(rng, puzzle.knights)
    if rng.random() < DIRECT_SHARE:
        return pick(rng, DIRECT_CLOSINGS) + ", ".join(kk_brief.letters(guess)) + "}"
    text = pick(rng, OPENINGS)
    for number in range(1, MAX_GUESSES + 1):
        checks, fits = _checks(rng, puzzle.claims, guess)
        text += f"{_signs(guess)}: {', '.join(checks)}"
        if fits or number == MAX_GUESSES:
            break
        text += pick(rng, CONNECTORS)
        guess = _guess(rng, puzzle.knights)
    return text + pick(rng, CLOSINGS) + ", ".join(kk_brief.letters(guess)) + "}"


def _guess(rng: random.Random, solution: Knights) -> Knights:
    if rng.random() < RIGHT_SHARE:
        return solution
    return rng.choice([guess for guess in product((True, False), repeat=len(solution)) if any(guess)])


def _signs(guess: Knights) -> str:
    return "".join(_sign_of(letter, guess) for letter in kk_brief.LETTERS[: len(guess)])


def _checks(rng: random.Random, claims: tuple[kk.Claim, ...], guess: Knights) -> tuple[list[str], bool]:
    """What is written of each person up to the first who does not fit, and whether all did."""
    assignment = sum(is_knight << person for person, is_knight in enumerate(guess))
    written: list[str] = []
    for letter, claim, is_knight in zip(kk_brief.LETTERS, claims, guess, strict=False):
        is_true = bool(kk.truth_table(claim, len(claims)) >> assignment & 1) != (rng.random() < MISTAKE_RATE)
        shown = is_true != (rng.random() < SLIP_RATE)
        typo = rng.choice(string.ascii_lowercase) if rng.random() < TYPO_RATE else ""
        statement = re.sub(r"[A-H]", lambda name: _sign_of(name[0], guess), kk_brief.formula(claim))
        fits = is_true == is_knight
        written.append(f"{typo}{letter}: {statement} = {'-+'[shown]} {'yes' if fits else 'no'}")
        if not fits:
            return written, False
    return written, True


def _sign_of(letter: str, guess: Knights) -> str:
    return letter + "-+"[guess[kk_brief.LETTERS.index(letter)]]
