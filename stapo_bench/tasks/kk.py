"""Knights and knaves: generated puzzles of 2 to 8 people with exactly one solution.

Everybody is a knight, all of whose statements are true, or a knave, all of whose statements are false; each makes one
statement, and the answer is the knights' names. A statement is a tree over "X is a knight" and "X is a knave" with
``and``, ``or``, ``if`` and ``iff``, nested deeper the more people there are. A puzzle is kept if exactly one of all 2^n
assignments makes every statement as true as its speaker. (The task of arXiv:2502.14768 and arXiv:2410.23123; the
puzzles and their wording are our own.)

Which split a puzzle may serve, the tasks or training, is a function of its statements alone, whatever the names, the
wording and the seed: no puzzle trained on is a puzzle of a task in other words.

>>> evaluation_rows(people=3, count=1, seed=0)[0]["answer"]
'Hugo, Vera'
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from stapo_bench.errors import UsageError
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks.distinct import distinct

MIN_PEOPLE, MAX_PEOPLE = 2, 8
TASK_SHARE = 0.25
"""The share of all puzzles that the tasks may ask; the rest is for training."""

NAMES = (
    "Ada", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Luis", "Mina",
    "Nils", "Olga", "Pablo", "Quinn", "Rosa", "Simon", "Tessa", "Umar", "Vera", "Walter", "Xenia", "Yusuf", "Zelda",
)  # fmt: skip
"""Names, one for each letter: their alphabetical order is plain, and none begins with another."""


# --- statements -------------------------------------------------------------------------------------------------------


Word = Literal["and", "or", "if", "iff"]
WORDS: tuple[Word, ...] = ("and", "or", "if", "iff")


@dataclass(frozen=True)
class Kind:
    """Says of ``person`` that they are a knight, or a knave. People are numbered in alphabetical order."""

    person: int
    is_knight: bool


@dataclass(frozen=True)
class Link:
    """Two claims joined by a word; see ``linked`` for the order of those that may be swapped."""

    word: Word  # if: the left one implies the right one
    left: "Claim"
    right: "Claim"


Claim = Kind | Link


def linked(word: Word, left: Claim, right: Claim) -> Link:
    """A link in the one order in which it is kept: only ``if`` means something else with its sides swapped."""
    if word != "if":
        left, right = sorted((left, right), key=repr)
    return Link(word, left, right)


def truth_table(claim: Claim, people: int) -> int:
    """Bit a is 1 where the claim is true under assignment a; bit i of a says whether person i is a knight.

    Python's integers hold all 2^n assignments at once.

    >>> f"{truth_table(Kind(0, True), 2):04b}", f"{truth_table(Link('and', Kind(0, True), Kind(1, False)), 2):04b}"
    ('1010', '0010')
    """
    everywhere = _everywhere(people)
    if isinstance(claim, Kind):
        knight = _knight_table(claim.person, people)
        return knight if claim.is_knight else everywhere & ~knight
    left, right = truth_table(claim.left, people), truth_table(claim.right, people)
    match claim.word:
        case "and":
            return left & right
        case "or":
            return left | right
        case "if":
            return everywhere & ~left | right
        case "iff":
            return everywhere & ~(left ^ right)


def _everywhere(people: int) -> int:
    return (1 << (1 << people)) - 1


@cache
def _knight_table(person: int, people: int) -> int:
    return sum(1 << a for a in range(1 << people) if a >> person & 1)


def solutions(claims: Sequence[Claim]) -> list[tuple[bool, ...]]:
    """Every assignment under which person i is a knight exactly where ``claims[i]`` is true, by looking at all 2^n.

    >>> solutions([Link("and", Kind(0, False), Kind(1, False)), Kind(1, True)])  # "we are both knaves"; "I am a knight"
    [(False, True)]
    """
    people = len(claims)
    consistent = _everywhere(people)
    for person, claim in enumerate(claims):
        consistent &= ~(_knight_table(person, people) ^ truth_table(claim, people))
    assignments = (a for a in range(1 << people) if consistent >> a & 1)
    return [tuple(bool(a >> person & 1) for person in range(people)) for a in assignments]


# --- puzzles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Puzzle:
    """What is asked, and its one solution."""

    text: str
    claims: tuple[Claim, ...]  # of each person, in order of their names
    names: tuple[str, ...]  # in alphabetical order
    knights: tuple[bool, ...]

    @property
    def answer(self) -> str:
        """The knights' names in alphabetical order: one text, which a checker of exact text reads too."""
        return ", ".join(name for name, knight in zip(self.names, self.knights, strict=True) if knight)


def words(puzzle: Puzzle) -> tuple[str, str]:
    """The puzzle's question and answer in sentences."""
    return puzzle.text, puzzle.answer


def max_depth(people: int) -> int:
    """How deep statements nest: 1 up to 4 people, 2 up to 7, 3 for 8."""
    return 1 + (people - 2) // 3


def _claim(rng: random.Random, speaker: int, people: int, depth: int) -> Claim:
    """A claim that nests exactly ``depth`` deep; a bare one is about somebody else."""
    if not depth:
        person = rng.choice([p for p in range(people) if p != speaker])
        return Kind(person, rng.random() < 0.5)
    deep = _part(rng, people, depth - 1)
    other = deep
    while _people_in(other) == _people_in(deep):  # no "X is a knight or X is a knave"
        other = _part(rng, people, rng.randint(0, depth - 1))
    left, right = (deep, other) if rng.random() < 0.5 else (other, deep)
    return linked(rng.choice(WORDS), left, right)


def _part(rng: random.Random, people: int, depth: int) -> Claim:
    """Part of a claim; it may be about the speaker."""
    return _claim(rng, -1, people, depth)


def _people_in(claim: Claim) -> frozenset[int]:
    return frozenset({claim.person}) if isinstance(claim, Kind) else _people_in(claim.left) | _people_in(claim.right)


def split_of(claims: Sequence[Claim]) -> Literal["task", "train"]:
    """The one split that a puzzle with these statements may serve."""
    digest = hashlib.sha256(repr(tuple(claims)).encode()).digest()
    return "task" if digest[0] < 256 * TASK_SHARE else "train"


def draw(rng: random.Random, split: str, people: int) -> Iterator[Puzzle]:
    """An endless stream of a split's puzzles; the same statements may come again.

    One without a knight is left out: its answer would be no name at all.
    """
    if not MIN_PEOPLE <= people <= MAX_PEOPLE:
        raise UsageError(f"knights and knaves: expected {MIN_PEOPLE} to {MAX_PEOPLE} people, got {people}")
    while True:
        depths = [rng.randint(0, max_depth(people)) for _ in range(people)]
        claims = tuple(_claim(rng, speaker, people, depth) for speaker, depth in enumerate(depths))
        if split_of(claims) != split:
            continue
        found = solutions(claims)
        if len(found) == 1 and any(found[0]):
            names = tuple(sorted(rng.sample(NAMES, people)))
            yield Puzzle(text=_text(rng, claims, names), claims=claims, names=names, knights=found[0])


def evaluation_rows(
    *, people: int, count: int, seed: int, in_words: Callable[[Puzzle], tuple[str, str]] = words
) -> list[dict[str, str]]:
    """A task's puzzles as rows ``{"id", "problem", "answer"}``, the same for the same seed on every machine.

    ``in_words``: gives a puzzle's question and answer, here or as in ``kk_brief``.
    """
    puzzles = _distinct(seed, "task", people, count)
    return [
        {"id": f"kk{people}-{number:03d}", "problem": problem, "answer": answer}
        for number, (problem, answer) in enumerate(map(in_words, puzzles), start=1)
    ]


def training_puzzles(seed: int, count: int, people: tuple[int, int]) -> list[Puzzle]:
    """Distinct puzzles to train on, of the fewest to the most ``people`` in turns."""
    fewest, most = people
    sizes = range(fewest, most + 1)
    shares = [(count - number + len(sizes) - 1) // len(sizes) for number in range(len(sizes))]
    piles = [iter(_distinct(seed, "train", size, share)) for size, share in zip(sizes, shares, strict=True)]
    return [next(piles[number % len(piles)]) for number in range(count)]


def _distinct(seed: int, split: str, people: int, count: int) -> list[Puzzle]:
    """The first puzzles of a split whose statements differ; UsageError: few people allow few statements."""
    drawn = draw(random.Random(derive_seed(seed, "kk", split, people)), split, people)
    what = f"puzzles of knights and knaves of {people} people"
    return distinct(drawn, count, what=what, key=lambda puzzle: puzzle.claims)


# --- wording ----------------------------------------------------------------------------------------------------------

_OPENINGS = (
    "In this village a knight says only what is true and a knave says only what is false; there is nobody else.",
    "Two kinds of people live by the lake: knights, whose every word is true, and knaves, whose every word is false.",
    "All members of a club are knights or knaves. What a knight says is always true, and a knave never says the truth.",
)
_MEETINGS = (
    "Today you talk to {}.",
    "At the table sit {}.",
    "You come across {}.",
)
_SAYINGS = ('{} says: "{}."', '{} tells you: "{}."', '"{1}," says {0}.', 'In the words of {}: "{}."')
_QUESTION = "Who are the knights? List their names in alphabetical order, separated by commas."


def _text(rng: random.Random, claims: Sequence[Claim], names: Sequence[str]) -> str:
    """The puzzle in words; people speak in a random order."""
    order = rng.sample(range(len(claims)), len(claims))
    said = [rng.choice(_SAYINGS).format(names[i], _said(rng, claims[i], i, names)) for i in order]
    met = [names[i] for i in order]
    meeting = rng.choice(_MEETINGS).format(", ".join(met[:-1]) + " and " + met[-1])
    return " ".join([rng.choice(_OPENINGS), meeting, *said, _QUESTION])


def _said(rng: random.Random, claim: Claim, speaker: int, names: Sequence[str]) -> str:
    """A claim in the words of its speaker."""
    words = _phrase(rng, claim, speaker, names, inside=False)
    return words[0].upper() + words[1:]


def _phrase(rng: random.Random, claim: Claim, speaker: int, names: Sequence[str], *, inside: bool) -> str:
    if isinstance(claim, Kind):
        who = "I am" if claim.person == speaker else f"{names[claim.person]} is"
        return f"{who} a {'knight' if claim.is_knight else 'knave'}"
    sides = [_phrase(rng, side, speaker, names, inside=True) for side in (claim.left, claim.right)]
    if claim.word != "if" and rng.random() < 0.5:
        sides.reverse()
    form = {
        "and": "{} and {}",
        "or": "{} or {}, or both",
        "if": "if {}, then {}",
        "iff": "{} exactly if {}",
    }[claim.word]
    # Brackets keep nested claims apart, as commas and "or" alone would not.
    return f"({form.format(*sides)})" if inside else form.format(*sides)
