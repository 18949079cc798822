"""Knights and knaves: one solution each, texts that say what is meant, splits apart, answers graded exactly."""

import io
import itertools
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_bench.analysis.score_file import score_run
from stapo_bench.engines import EngineOptions
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import grade_answer
from stapo_bench.grading.graders import strict
from stapo_bench.records import Gold, Outcome
from stapo_bench.runs.run_grading import grade_run
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.tasks import kk, kk_brief
from stapo_bench.tasks.kk import Kind, Link, linked, solutions
from stapo_bench.tasks.loading import load_problems, load_task, read_task, task_names

pytestmark = pytest.mark.usefixtures("graded_here")

PEOPLE = range(kk.MIN_PEOPLE, kk.MAX_PEOPLE + 1)
SPLITS = ("task", "train")


def puzzles(people: int, count: int, split: str = "task", seed: int = 5) -> list[kk.Puzzle]:
    return list(itertools.islice(kk.draw(random.Random(seed), split, people), count))


# --- slow references: one assignment at a time, and from the text alone -----------------------------------------------


def is_true(claim: kk.Claim, knights: tuple[bool, ...]) -> bool:
    if isinstance(claim, Kind):
        return knights[claim.person] == claim.is_knight
    left, right = is_true(claim.left, knights), is_true(claim.right, knights)
    return {"and": left and right, "or": left or right, "if": right or not left, "iff": left == right}[claim.word]


def slow_solutions(claims) -> list[tuple[bool, ...]]:
    everything = itertools.product([False, True], repeat=len(claims))
    return [a for a in everything if all(is_true(claim, a) == knight for claim, knight in zip(claims, a, strict=True))]


def depth(claim: kk.Claim) -> int:
    return 0 if isinstance(claim, Kind) else 1 + max(depth(claim.left), depth(claim.right))


def statements_of(text: str) -> dict[str, str]:
    """Speaker -> what they say, in the puzzle's text."""
    forms = r'(\w+) (?:says|tells you): "([^"]+)\."|In the words of (\w+): "([^"]+)\."|"([^"]+)," says (\w+)\.'
    return {m[1] or m[3] or m[6]: m[2] or m[4] or m[5] for m in re.finditer(forms, text)}


def read_claim(words: str, speaker: str, names: list[str]) -> kk.Claim:
    """A claim from its words: brackets first taken out, then the one connective that is left."""
    inner: list[str] = []

    def part(found: str) -> kk.Claim:
        place = re.fullmatch(r"<(\d+)>", found)
        return read_claim(inner[int(place[1])] if place else found, speaker, names)

    level, flat, start = 0, "", 0
    for i, character in enumerate(words):
        if character == "(":
            level, start = level + 1, i + 1 if level == 0 else start
        elif character == ")":
            level -= 1
            if level == 0:
                flat += f"<{len(inner)}>"
                inner.append(words[start:i])
        elif level == 0:
            flat += character
    for pattern, word in (
        (r"[Ii]f (.+), then (.+)", "if"),
        (r"(.+) or (.+), or both", "or"),
        (r"(.+) exactly if (.+)", "iff"),
        (r"(.+) and (.+)", "and"),
    ):
        if found := re.fullmatch(pattern, flat):
            return Link(word, part(found[1]), part(found[2]))
    who, kind = re.fullmatch(r"(I am|\w+ is) a (knight|knave)", flat).groups()
    return Kind(names.index(speaker if who == "I am" else who.removesuffix(" is")), kind == "knight")


# --- puzzles ----------------------------------------------------------------------------------------------------------


def test_solutions_by_hand():
    # A: "we are both knaves." True would make A a knave who tells the truth; so it is false, and B is a knight.
    # B: "I am a knight" fits.
    assert solutions([Link("and", Kind(0, False), Kind(1, False)), Kind(1, True)]) == [(False, True)]
    # A: "B is a knave", B: "A is a knave": one of them is, nothing says which.
    assert sorted(solutions([Kind(1, False), Kind(0, False)])) == [(False, True), (True, False)]
    # A: "I am a knave": nobody can say that.
    assert solutions([Kind(0, False), Kind(0, True)]) == []
    # A: "if B is a knight, I am a knave." A lie would need B a knight and A a knight; so it is true, and B is a knave,
    # whose "A is a knave" is false indeed.
    assert solutions([Link("if", Kind(1, True), Kind(0, False)), Kind(0, False)]) == [(True, False)]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10**6))
def test_all_assignments_at_once_are_one_after_the_other(people, seed):
    rng = random.Random(seed)
    claims = [kk._claim(rng, i, people, rng.randint(0, 3)) for i in range(people)]
    assert sorted(solutions(claims)) == sorted(slow_solutions(claims))


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("split", SPLITS)
def test_the_text_alone_has_the_answer_and_no_other(people, split):
    for puzzle in puzzles(people, 8, split):
        said = statements_of(puzzle.text)
        assert len(said) == people
        names = sorted(said)
        assert slow_solutions([read_claim(said[name], name, names) for name in names]) == [puzzle.knights]
        assert puzzle.answer == ", ".join(n for n, knight in zip(names, puzzle.knights, strict=True) if knight) != ""


def read_formula(text: str) -> kk.Claim:
    """A claim from its formula: the connective outside all brackets, ``if`` first."""
    flat = re.sub(r"\([^()]*\)", lambda found: "_" * len(found[0]), text)
    while "(" in flat:
        flat = re.sub(r"\([^()]*\)", lambda found: "_" * len(found[0]), flat)
    for word, split in (("if", " then "), ("iff", " iff "), ("and", " and "), ("or", " or ")):
        if split in flat:
            place = flat.index(split)
            sides = (text[:place].removeprefix("if "), text[place + len(split) :])
            return Link(word, *(read_formula(re.sub(r"^\((.*)\)$", r"\1", side)) for side in sides))
    return Kind(kk_brief.LETTERS.index(text[-1]), not text.startswith("not "))


def test_a_puzzle_in_brief_by_hand():
    claims = (Link("if", Kind(1, True), Kind(0, False)), Kind(0, False))
    puzzle = kk.Puzzle(text="", claims=claims, names=("Ada", "Bruno"), knights=(True, False))
    assert kk_brief.words(puzzle) == ("A: if B then not A. B: not A. Who are the knights?", "A")


@pytest.mark.parametrize("people", PEOPLE)
def test_in_brief_it_is_the_same_puzzle(people):
    for puzzle in puzzles(people, 30):
        question, answer = kk_brief.words(puzzle)
        *said, asked = question.split(". ")
        assert asked == "Who are the knights?"
        assert [text[:3] for text in said] == [f"{letter}: " for letter in kk_brief.LETTERS[:people]]
        assert tuple(read_formula(text[3:]) for text in said) == puzzle.claims
        assert [letter in answer.split(", ") for letter in kk_brief.LETTERS[:people]] == list(puzzle.knights)


def test_swapping_the_sides_gives_the_same_claim_except_of_if():
    a, b = Kind(0, True), Link("or", Kind(1, True), Kind(2, False))
    assert all(linked(word, a, b) == linked(word, b, a) for word in ("and", "or", "iff"))
    assert linked("if", a, b) != linked("if", b, a)


def test_statements_nest_deeper_the_more_people_there_are():
    deepest = [max(depth(claim) for puzzle in puzzles(n, 20) for claim in puzzle.claims) for n in PEOPLE]
    assert deepest == [1, 1, 1, 2, 2, 2, 3]


def test_nobody_speaks_of_themselves_alone_and_no_link_joins_the_same_people():
    for puzzle in puzzles(4, 50):
        for speaker, claim in enumerate(puzzle.claims):
            assert not isinstance(claim, Kind) or claim.person != speaker
            assert isinstance(claim, Kind) or kk._people_in(claim.left) != kk._people_in(claim.right)


def test_same_seed_same_puzzles_other_seed_others():
    assert kk.evaluation_rows(people=4, count=20, seed=1) == kk.evaluation_rows(people=4, count=20, seed=1)
    texts = [{row["problem"] for row in kk.evaluation_rows(people=4, count=20, seed=seed)} for seed in (1, 2)]
    assert not texts[0] & texts[1]


def all_puzzles_of_two() -> list[tuple[kk.Claim, kk.Claim]]:
    """Every pair of statements with one solution and a knight in it, written down without the generator."""

    def claims(speaker: int) -> set[kk.Claim]:
        bare = [Kind(person, knight) for person in (0, 1) for knight in (True, False)]
        pairs = [(a, b) for a in bare for b in bare if a.person != b.person]
        links = {linked(word, a, b) for word in kk.WORDS for a, b in pairs}
        return links | {claim for claim in bare if claim.person != speaker}

    found = {pair: slow_solutions(pair) for pair in itertools.product(claims(0), claims(1))}
    return [pair for pair, solved in found.items() if len(solved) == 1 and any(solved[0])]


def test_the_splits_share_out_all_puzzles():
    everything = all_puzzles_of_two()
    split = {name: {pair for pair in everything if kk.split_of(pair) == name} for name in SPLITS}
    assert (len(everything), len(split["task"]), len(split["train"])) == (201, 57, 144)
    for name, seed in itertools.product(SPLITS, (0, 1)):
        drawn = kk.draw(random.Random(seed), name, 2)
        puzzles_of_it = kk.distinct(drawn, len(split[name]), what="puzzles", key=lambda puzzle: puzzle.claims)
        assert {puzzle.claims for puzzle in puzzles_of_it} == split[name]


@pytest.mark.parametrize("people", PEOPLE)
def test_no_puzzle_trained_on_is_a_task_s_in_other_words(people):
    asked = {puzzle.claims for puzzle in puzzles(people, 60, "task")}
    trained = {puzzle.claims for seed in (0, 1) for puzzle in kk.training_puzzles(seed, 60, (people, people))}
    assert not asked & trained
    texts = {row["problem"] for row in kk.evaluation_rows(people=people, count=30, seed=0)}
    assert {kk.split_of(_claims_in(text)) for text in texts} == {"task"}


def _claims_in(text: str) -> tuple[kk.Claim, ...]:
    said = statements_of(text)
    return tuple(_ordered(read_claim(said[name], name, sorted(said))) for name in sorted(said))


def _ordered(claim: kk.Claim) -> kk.Claim:
    return claim if isinstance(claim, Kind) else linked(claim.word, _ordered(claim.left), _ordered(claim.right))


def test_training_takes_numbers_of_people_in_turns_and_no_puzzle_twice():
    found = kk.training_puzzles(3, 50, (2, 4))
    assert [len(puzzle.names) for puzzle in found] == [2 + i % 3 for i in range(50)]
    assert len({puzzle.claims for puzzle in found}) == 50


def test_too_much_is_refused():
    with pytest.raises(UsageError, match="expected 2 to 8 people, got 9"):
        kk.evaluation_rows(people=9, count=1, seed=0)
    with pytest.raises(UsageError, match=r"expected 999 distinct puzzles .* of 2 people, found 14[0-4]; ask for fewer"):
        kk.training_puzzles(0, 999, (2, 2))


# --- tasks and grading ------------------------------------------------------------------------------------------------


def test_task_files_pin_the_generated_content(tmp_path):
    tasks = [load_task(name) for name in task_names("kk")]
    assert [task.name for task in tasks] == [f"kk{n}" for n in PEOPLE]
    for task, people in zip(tasks, PEOPLE, strict=True):
        assert task.digest, "a task without a digest accepts any content"
        problems = load_problems(task)  # raises where count or digest differ
        assert len(statements_of(problems[0].question)) == people
        assert problems[0].gold.answer_type == "text"
        other = tmp_path / "other.yaml"
        shared = task.path.parent / "_defaults"
        other.write_text(task.path.read_text().replace("seed: 0", "seed: 1").replace("_defaults", str(shared)))
        with pytest.raises(StapoError, match="wrong content"):
            load_problems(read_task(other))


def test_the_suite_in_brief_asks_the_same_puzzles():
    for name in task_names("tiny-kk"):
        brief, task = load_task(name), load_task(name.removeprefix("tiny_"))
        assert (brief.num_problems, brief.answer_type, brief.integer_answers) == (task.num_problems, "text", False)
        for short, long in zip(load_problems(brief), load_problems(task), strict=True):
            people = sorted(statements_of(long.question))
            assert [people[kk_brief.LETTERS.index(x)] for x in short.gold.answer.split(", ")] == long.gold.answer.split(
                ", "
            )
    assert task_names("tiny-kk") == [f"tiny_kk{n}" for n in range(2, 5)]


def test_an_unknown_generator_is_refused(tmp_path):
    task = tmp_path / "own.yaml"
    task.write_text(
        "task: stapo_own\nrepeats: 1\ndoc_to_text: '{{problem}}'\n"
        "metadata: {num_problems: 1, generator: {name: kings, seed: 0}}\n"
    )
    with pytest.raises(StapoError, match="expected a generator named tiny, products, kk or kk-brief, got 'kings'"):
        load_problems(read_task(task))


def test_only_the_solution_is_correct_among_all_assignments():
    for puzzle in puzzles(5, 6):
        for chosen in itertools.product([False, True], repeat=5):
            text = ", ".join(name for name, knight in zip(puzzle.names, chosen, strict=True) if knight) or "nobody"
            for grade in (grade_answer, strict.grade_answer):
                found = grade(rf"So \boxed{{{text}}}.", Gold(answer=puzzle.answer, answer_type="text")).outcome
                assert found == (Outcome.CORRECT if chosen == puzzle.knights else Outcome.INCORRECT), text


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (r"\boxed{Ada, Greta, Luis}", Outcome.CORRECT),
        (r"\boxed{\text{Ada, Greta, Luis}}", Outcome.CORRECT),
        (r"\boxed{\text{Ada}, \text{Greta}, \text{Luis}}", Outcome.CORRECT),
        (r"\boxed{ada,greta,luis}", Outcome.CORRECT),
        (r"\boxed{Ada, Greta and Luis}", Outcome.CORRECT),
        (r"\boxed{Ada, Greta, and Luis}", Outcome.CORRECT),
        (r"\boxed{Luis, Ada, Greta}", Outcome.CORRECT),  # the order is the question's wish, not the answer
        (r"\boxed{Ada, Ada, Greta, Luis}", Outcome.INCORRECT),
        (r"\boxed{Ada, Greta}", Outcome.INCORRECT),
        (r"\boxed{Ada, Greta, Luis, Mina}", Outcome.INCORRECT),
        (r"\boxed{Ada, Greta, Mina}", Outcome.INCORRECT),
        (r"\boxed{Ada, Greta, Luisa}", Outcome.INCORRECT),
        (r"\boxed{Ada, Greta or Luis}", Outcome.INCORRECT),
        (r"\boxed{not Ada, Greta, Luis}", Outcome.INCORRECT),
        (r"\boxed{none}", Outcome.INCORRECT),
        (r"The knights are \boxed{Ada, Gre", Outcome.NO_ANSWER),
    ],
)
def test_answers_are_read_exactly(answer, outcome):
    assert grade_answer(answer, Gold(answer="Ada, Greta, Luis", answer_type="text")).outcome == outcome


def test_letters_are_graded_as_names_are():
    everybody = [group for n in range(1, 4) for group in itertools.combinations(kk_brief.LETTERS[:4], n)]
    for asked, said in itertools.product(everybody, repeat=2):
        grade = grade_answer(rf"\boxed{{{', '.join(said)}}}", Gold(answer=", ".join(asked), answer_type="text"))
        assert grade.outcome == (Outcome.CORRECT if said == asked else Outcome.INCORRECT)


def test_every_name_is_a_word_to_the_grader():
    for name, other in itertools.permutations(kk.NAMES, 2):
        assert grade_answer(rf"\boxed{{{name}}}", Gold(answer=name, answer_type="text")).outcome == Outcome.CORRECT
        assert grade_answer(rf"\boxed{{{other}}}", Gold(answer=name, answer_type="text")).outcome == Outcome.INCORRECT


def test_a_scripted_model_is_evaluated_and_scored(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("success: 0.5\n")
    options = EvalOptions(
        checkpoint=script,
        decoding="training",
        tasks=("kk2", "kk5"),
        out=tmp_path / "run",
        engine=EngineOptions(name="scripted"),
    )
    run_dir = evaluate(options, watch=io.StringIO()).run_dir
    grade_run(run_dir)
    for score, num_problems in zip(score_run(run_dir).tasks, (40, 100), strict=True):
        assert (score.num_problems, score.num_samples, score.num_grader_errors) == (num_problems, 4 * num_problems, 0)
        assert 0.4 < score.value < 0.6
