"""A session: mutations by cosmic-ray, in its data base, each tried in a copy of the working tree."""

import ast
import contextlib
import hashlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult

from bench.mutation.covering import Covering, digest, environment_of
from bench.mutation.page import KINDS
from bench.mutation.places import FIELDS, Place, by_place, place_of, read_places, write_places

MOST_TESTS = 5_000
"""A mutation that so many tests do not notice is taken for unnoticed."""
MISSED = ("unnoticed", "not run", "noticed since")
"""Found at a place that the tests did not notice when it was first tried."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a session mutates."""

    modules: tuple[str, ...]  # paths
    sample: int | None  # places; None: every mutation of every place
    seed: int


def open_session(folder: Path, chosen: Chosen, kept: Sequence[Place] = ()) -> Path:
    """The session's data base: the one that was begun, else a new one; by what is chosen and the modules' contents.

    Args:
        folder: of the sessions.
        chosen: what is mutated.
        kept: the places that the record of the same command names. A sample is these, where their lines are still
            there, and is not drawn again.
    """
    state = repr(chosen) + "".join(map(digest, chosen.modules)) + (repr(list(kept)) if kept else "")
    path = folder / f"{hashlib.sha256(state.encode()).hexdigest()[:16]}.sqlite"
    if not path.with_suffix(".json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with use_db(folder / "all.sqlite") as every, use_db(path.with_suffix(".new")) as db:
            init([Path(module) for module in chosen.modules], every, {})
            places = by_place(every.work_items)
            still = [places[place] for place in kept if place in places]
            drawn = still if kept and chosen.sample else sampled(places.values(), chosen)
            db.add_work_items(drawn)
        path.with_suffix(".new").rename(path)
        write_places(path.with_suffix(".json"), drawn, places)
        (folder / "all.sqlite").unlink()
    return path


def sampled(items: Iterable[WorkItem], chosen: Chosen) -> list[WorkItem]:
    """Mutations that a type annotation does not hide: all, or one at each of ``sample`` random places."""
    hidden = {path: list(annotations(Path(path).read_text(encoding="utf-8"))) for path in chosen.modules}
    places: dict[tuple[str, tuple[int, int], tuple[int, int]], list[WorkItem]] = defaultdict(list)
    for item in items:
        (change,) = item.mutations
        if not any(a <= change.start_pos and change.end_pos <= b for a, b in hidden[str(change.module_path)]):
            places[str(change.module_path), change.start_pos, change.end_pos].append(item)
    for of_place in places.values():
        of_place.sort(key=lambda item: (item.mutations[0].operator_name, item.mutations[0].occurrence))
    if chosen.sample is None:
        return [item for of_place in places.values() for item in of_place]
    rng = random.Random(chosen.seed)
    drawn = rng.sample(sorted(places), min(chosen.sample, len(places)))
    return [rng.choice(places[place]) for place in drawn]


def annotations(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where the type annotations begin and end: changed, they break every import and say nothing of the tests."""
    for node in ast.walk(ast.parse(text)):
        for field in ("annotation", "returns"):
            if (hint := getattr(node, field, None)) is not None:
                yield (hint.lineno, hint.col_offset), (hint.end_lineno, hint.end_col_offset)


def lines_of(change: MutationSpec) -> tuple[int, int]:
    """First and last line of the expression that a mutation changes, which may go on over several."""
    around = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(change.module_path.read_text(encoding="utf-8")))
        if isinstance(node, ast.expr)
        and (node.lineno, node.col_offset) <= change.start_pos
        and change.end_pos <= (node.end_lineno or 0, node.end_col_offset or 0)
    ]
    return max(around, key=lambda lines: lines[1] - lines[0], default=(change.start_pos[0], change.end_pos[0]))


def to_try(path: Path, again: bool, before: Sequence[Mapping[str, Any]]) -> list[WorkItem]:
    """What has no result yet, neither in the session nor among the record's places; ``again``: what was missed, too."""
    jobs = read_places(path.with_suffix(".json"))
    noticed = {jobs.get(place_of(row)): row["found"].startswith("noticed") for row in before if row["found"]}
    with use_db(path, WorkDB.Mode.open) as db:
        noticed |= {item.job_id: is_noticed(result) for item, result in db.completed_work_items}
        return [
            item
            for item in db.work_items
            if not noticed.get(item.job_id, False) and (again or item.job_id not in noticed)
        ]


def run(path: Path, todo: Sequence[WorkItem], covered: Covering, copies: list[Path]) -> None:
    """Try these mutations, one process to a copy, and keep the results in the session."""
    with use_db(path, WorkDB.Mode.open) as db:
        context = get_context("spawn")
        free = context.Manager().Queue()
        for copy in copies:
            free.put(str(copy))
        with ProcessPoolExecutor(len(copies), context, initializer=_settle, initargs=(free,)) as pool:
            jobs = {}
            for item in todo:
                (change,) = item.mutations
                tests = covered.tests_of(str(change.module_path), *lines_of(change))[:MOST_TESTS]
                limit = 60.0 + 10.0 * sum(covered.seconds.get(test, 1.0) for test in tests)
                jobs[pool.submit(tried, change, tests, limit)] = item
            try:
                for number, job in enumerate(as_completed(jobs), start=1):
                    item, result = jobs[job], job.result()
                    (change,) = item.mutations
                    if result.test_outcome == TestOutcome.INCOMPETENT:
                        raise SystemExit(f"{change.module_path}: expected tests that run, got: {result.output}")
                    db.set_result(item.job_id, result)
                    said = f"{change.module_path}:{change.start_pos[0]} {result.test_outcome or result.worker_outcome}"
                    print(f"{number}/{len(jobs)} {said}", file=sys.stderr, flush=True)
            finally:
                pool.shutdown(cancel_futures=True)  # on Ctrl-C what is being tried comes to its end, and no more begins


def _settle(free: "object") -> None:
    """A process works in a copy of its own, and imports from there. Ctrl-C is its parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    copy = Path(free.get())  # type: ignore[attr-defined]
    os.chdir(copy)
    os.environ.update(environment_of(copy))


def tried(change: MutationSpec, tests: list[str], limit: float) -> WorkResult:
    """Whether one of the tests notices the mutation, in the working directory."""
    if not tests:
        return WorkResult(worker_outcome=WorkerOutcome.NO_TEST)
    Path("chosen-tests").write_text("\n".join(tests), encoding="utf-8")
    command = shlex.join([sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "@chosen-tests"])
    return mutate_and_test([change], command, limit)


@contextlib.contextmanager
def copies(folder: Path, number: int) -> Iterator[list[Path]]:
    """Copies of the working tree, without what git ignores; gone afterwards."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    made = [folder / f"copy-{index}" for index in range(number)]
    try:
        for copy in made:
            shutil.rmtree(copy, ignore_errors=True)
            for file in filter(os.path.isfile, files):
                (copy / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy / file)
        yield made
    finally:
        for copy in made:
            shutil.rmtree(copy, ignore_errors=True)


def is_noticed(result: WorkResult) -> bool:
    """Whether a test failed, or did not end."""
    return bool(result.test_outcome == TestOutcome.KILLED)


def room_of(path: str) -> str:
    """The room of a module."""
    parts = Path(path).parts
    return "trainer" if parts[0] == "train" else parts[1].removesuffix(".py")


def record(path: Path, command: str, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was found so far: counts by room, the places, and what was not noticed when it was first tried.

    Args:
        path: the session's data base.
        command: that makes the record.
        samples: the records that are there. Their reasons are kept; the same command's places stay, with what was
            found of them, where this session has nothing newer or the line is gone. What was missed at a place and is
            noticed by the tests of today is "noticed since".
    """
    reasons = {_change(row): row["reason"] for sample in samples for row in sample["unnoticed"] if row["reason"]}
    before = next((sample for sample in samples if sample["command"] == command), {"places": [], "unnoticed": []})
    known = {place_of(row): row["found"] for row in before["places"]}
    rows = {row["place"]: row for row in before["unnoticed"]}
    jobs = read_places(path.with_suffix(".json"))
    with use_db(path, WorkDB.Mode.open) as db:
        items, results = {item.job_id: item for item in db.work_items}, dict(db.results)
    counts: dict[str, Counter[str]] = {}
    places: list[dict[str, Any]] = []
    unnoticed = []
    for number, place in enumerate(dict.fromkeys([*known, *jobs])):
        found, row, job = known.get(place, ""), rows.get(number, {}), jobs.get(place, "")
        if job in results:
            found = _found(results[job], found)
            was, became = _lines(results[job], place)
            row = {"was": was, "became": became}
        places.append({**dict(zip(FIELDS, place, strict=True)), "found": found} | ({} if job else {"gone": True}))
        if found in MISSED:
            line = items[job].mutations[0].start_pos[0] if job else row["line"]
            row = {"place": number, "path": place[0], "line": line, "was": row["was"], "became": row["became"]}
            unnoticed.append({**row, "tests": found, "reason": reasons.get(_change(row), "")})
        if found:
            is_same = found in MISSED and unnoticed[-1]["reason"].startswith("equivalent")
            counts.setdefault(room_of(place[0]), Counter())["equivalent" if is_same else found] += 1
    unnoticed.sort(key=lambda row: (row["path"], row["line"], row["became"]))
    rooms = {room: {kind: number[kind] for kind in KINDS} for room, number in sorted(counts.items())}
    left = sum(not row["found"] and "gone" not in row for row in places)
    return {"command": command, "left": left, "rooms": rooms, "unnoticed": unnoticed, "places": places}


def _found(result: WorkResult, before: str) -> str:
    """What the tests of today find at a place where something was found ``before``."""
    if is_noticed(result):
        return "noticed since" if before in MISSED else "noticed"
    return "not run" if result.worker_outcome == WorkerOutcome.NO_TEST else "unnoticed"


def _change(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a reason belongs to, wherever in the file it stands."""
    return row["path"], row["was"], row["became"]


def _lines(result: WorkResult, place: Place) -> tuple[str, str]:
    """The changed lines before and after; the place's line where no test ran it."""
    if not result.diff:
        return place[1], ""
    changed = [text for text in result.diff.splitlines() if text[:1] in "+-" and text[:3] not in ("+++", "---")]
    sides = (" ".join(text[1:].strip() for text in changed if text[0] == sign) for sign in "-+")
    was, became = sides
    return was, became
