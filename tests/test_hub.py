"""Problems from the hub, against a server on loopback that speaks its protocol; each load in a process of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from fake_hub import Hub, commit_of, parquet, serve

from stapo_bench.errors import StapoError
from stapo_bench.tasks import load_problems, load_task
from stapo_bench.tasks.content import ContentDigest, content_digest

LOAD = """
import json, sys
from stapo_bench.errors import StapoError
from stapo_bench.tasks.loading import load_problems, load_task
for file in sys.argv[1:]:
    try:
        problems = load_problems(load_task(file))
        print(json.dumps([[p.problem_id, p.question, p.gold.answer, p.gold.unit] for p in problems]))
    except StapoError as error:
        print(json.dumps(str(error)))
"""
SET = "made-up/sums"


def made_up(shift: int = 0) -> list[dict[str, Any]]:
    """30 rows with the columns of OlympiadBench: answers are lists, of two values in the last ten."""
    return [
        {
            "question": f"Which numbers x satisfy |x| = {i + shift}?" if i >= 20 else f"What is {i} + {shift}?",
            "final_answer": [str(i + shift), str(-i - shift)] if i >= 20 else [str(i + shift)],
            "unit": "cm" if i == 3 else None,
            "subfield": "Algebra",
        }
        for i in range(30)
    ]


def files_of(rows: list[dict[str, Any]]) -> dict[str, bytes]:
    return {"README.md": b"# Made up\n", "data/test-00000-of-00001.parquet": parquet(rows)}


def digest_of(rows: list[dict[str, Any]]) -> str:
    return content_digest(ContentDigest.of(row["question"], ",".join(row["final_answer"])) for row in rows)


OLD, NEW = made_up(), made_up(shift=100)


@dataclass(frozen=True)
class Client:
    """A machine with a cache of its own, and task files."""

    folder: Path
    endpoint: str

    def task_file(
        self, *, num_problems: int = 30, digest: str = "", revision: str | None = None, path: str = SET
    ) -> Path:
        file = Path(mkdtemp(dir=self.folder)) / "sums.yaml"
        named = f", revision: {revision}" if revision else ""
        file.write_text(
            f"task: stapo_sums\ndataset_path: {path}\ntest_split: test\nrepeats: 2\ndoc_to_text: '{{{{problem}}}}'\n"
            f"metadata: {{num_problems: {num_problems}, digest: '{digest}'{named},\n"
            f"  columns: {{problem: question, answer: final_answer, unit: unit}}}}\n"
        )
        return file

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"HF_HOME": str(self.folder / "hf"), "HF_ENDPOINT": self.endpoint, "HF_TOKEN": ""}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "STAPO_")) and "proxy" not in k.lower()}
        return subprocess.run(
            [sys.executable, *command],
            env=kept | own | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    def load(self, *files: Path, **environment: str) -> list[Any]:
        """Of each task file the problems as lists, or the error's text; nothing may stand on standard error."""
        ended = self.run("-c", LOAD, *map(str, files), **environment)
        assert ended.stderr == ""
        assert ended.returncode == 0
        return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve(Hub(sets={SET: [files_of(NEW), files_of(OLD)]})) as running:
        yield running


@pytest.fixture
def client(hub, tmp_path) -> Client:
    return Client(tmp_path, hub.endpoint)


@pytest.mark.slow(reason="three processes that load datasets")
def test_rows_come_checked_under_our_columns_then_from_the_cache(hub, client):
    file = client.task_file(digest=digest_of(NEW))
    (problems,) = client.load(file)
    assert len(problems) == 30
    assert problems[3] == ["sums-004", "What is 3 + 100?", "103", "cm"]
    assert problems[25] == ["sums-026", "Which numbers x satisfy |x| = 125?", "125,-125", None]
    num_requests = len(hub.requests)
    # Asked for the cache alone, the hub hears nothing; out of reach, it is asked once.
    assert client.load(file, HF_HUB_OFFLINE="1") == [problems]
    assert len(hub.requests) == num_requests
    hub.failing = True
    assert client.load(file) == [problems]
    assert len(hub.requests) == num_requests + 1


@pytest.mark.slow(reason="a process that loads datasets")
def test_the_revision_of_the_task_file_decides_which_rows_come(hub, client):
    old = commit_of(files_of(OLD))
    problems, error = client.load(
        client.task_file(digest=digest_of(OLD), revision=old), client.task_file(revision="f" * 40)
    )
    assert problems[3][1] == "What is 3 + 0?"
    assert {request for request in hub.requests if "/resolve/" in request or "/revision/" in request}
    assert all(old in request or "f" * 40 in request for request in hub.requests if "made-up" in request)
    assert error.startswith(f"task sums: cannot load {SET} from the hub (it has no revision 'ffffff")


@pytest.mark.slow(reason="one more process that loads datasets, for four task files")
def test_other_content_than_the_task_names_and_what_the_hub_does_not_have_are_one_line(client):
    renamed = client.task_file()
    renamed.write_text(renamed.read_text().replace("answer: final_answer", "answer: gold"))
    other, short, nothing, columns = client.load(
        client.task_file(digest=digest_of(OLD)),
        client.task_file(num_problems=31),
        client.task_file(path="made-up/nothing"),
        renamed,
    )
    assert f"wrong content in {SET} (test): expected digest {digest_of(OLD)[:12]}, got {digest_of(NEW)[:12]}" in other
    assert short == f"sums.yaml: expected 31 problems, got 30 in {SET} (test)"
    assert "(there is no such data set, or no access to it); give --data-dir DIR with sums.jsonl" in nothing
    assert columns == f"{SET}: expected column gold, got question, final_answer, unit, subfield"


OTHER = pytest.mark.slow(reason="another command that loads datasets")


@pytest.mark.parametrize("how", [pytest.param("failing", marks=OTHER), "gone", pytest.param("offline", marks=OTHER)])
def test_a_hub_out_of_reach_fails_at_once_with_one_line(hub, client, how):
    file = client.task_file()
    reason = {"failing": "the hub answered 503", "gone": "the hub is out of reach", "offline": "HF_HUB_OFFLINE is set"}
    hub.failing = how == "failing"
    environment = {"gone": {"HF_ENDPOINT": "http://127.0.0.1:9"}, "offline": {"HF_HUB_OFFLINE": "1"}}.get(how, {})
    (client.folder / "script.yaml").write_text("success: 0.5\n")
    arguments = ["-m", "stapo_bench", "eval", "--ckpt", str(client.folder / "script.yaml"), "--engine", "scripted"]
    arguments += ["--decoding", "justrl", "--tasks", str(file), "--out", str(client.folder / "run")]
    started = time.monotonic()
    ended = client.run(*arguments, **environment)
    assert time.monotonic() - started < 25  # retries of the library's own would take half a minute
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"stapo-bench: task sums: cannot load {SET} from the hub ({reason[how]}")
    assert line.endswith("no copy of it in the cache); give --data-dir DIR with sums.jsonl")
    assert len(hub.requests) == (how == "failing")


def test_where_datasets_is_not_installed_the_way_without_it_is_said_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(StapoError) as error:
        load_problems(load_task("aime24"))
    assert str(error.value) == (
        "task aime24: cannot load HuggingFaceH4/aime_2024 from the hub (datasets is not installed: "
        "pip install 'stapo-bench[eval]'); give --data-dir DIR with aime24.jsonl"
    )
