"""The record's files: which belong to a run, what lies inside archives, and why the others hold no samples."""

import gzip
import json
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from bench.reanalysis.record import Run
from stapo_bench.errors import StapoError
from stapo_bench.runs.importing import Stated
from stapo_bench.runs.importing.formats import recognise
from stapo_bench.runs.importing.opening import open_file
from stapo_bench.runs.importing.survey import survey


class Record:
    """A folder of published files, with a scratch folder for what has to be unpacked or taken apart.

    ``used`` grows with every file that a run asks for.
    """

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.used: set[Path] = set()
        self._scratch = scratch
        for archive in sorted(folder.rglob("*.zip")):
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(scratch / "archives" / archive.relative_to(folder))

    def files_of(self, run: Run) -> list[Path]:
        """Where a run's files lie, in order; empty where this copy of the record lacks them."""
        found = [path for glob in run.files for path in self._found(glob)]
        return [self._one_system(path, run.system) for path in found] if run.system else found

    def table(self, file: str) -> Path | None:
        """A file of verdicts; None where this copy of the record lacks it."""
        return next(self._found(file), None)

    def folder_of(self, name: str) -> Path:
        """A folder; what lies in it counts as used."""
        self.used.update(path for path in (self.folder / name).rglob("*-metrics.json") if path.is_file())
        return self.folder / name

    def files(self) -> list[Path]:
        """All of the record but its index and its description."""
        return sorted(path for path in self.folder.glob("*/**/*") if path.is_file())

    def duplicates(self) -> list[list[str]]:
        """Groups of files with equal content, by their paths."""
        by_digest: dict[bytes, list[str]] = {}
        for path in self.files():
            by_digest.setdefault(sha256(path.read_bytes()).digest(), []).append(str(path.relative_to(self.folder)))
        return sorted(group for group in by_digest.values() if len(group) > 1)

    def unused(self) -> dict[str, int]:
        """Why files hold no samples to judge, and how many; those that hold some are no part of any run of ours."""
        reasons: dict[str, int] = {}
        for path in self.files():
            if path not in self.used:
                why = _reason(path)
                reasons[why] = reasons.get(why, 0) + 1
        return dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))

    def _found(self, glob: str) -> Iterator[Path]:
        archives = self._scratch / "archives"
        for root in (self.folder, archives):
            for path in sorted(path for path in root.glob(glob) if path.is_file()):
                inside = next((part for part in path.parents if part.suffix == ".zip"), None)
                self.used.add(path if inside is None else self.folder / inside.relative_to(archives))
                yield path

    def _one_system(self, path: Path, system: str) -> Path:
        """The rows of one of several models that stand in each row, with the gold behind ``A:``."""
        out = self._scratch / "systems" / f"{system}.jsonl"
        out.parent.mkdir(parents=True, exist_ok=True)
        with path.open(encoding="utf-8") as rows, out.open("w", encoding="utf-8") as taken:
            for row in map(json.loads, rows):
                one = {
                    "problem": row["question"],
                    "gold": row["ground_truth"].rsplit("A:", 1)[-1].strip(),
                    "completion": row[system]["solution"],
                    "score": row[system]["is_correct"],
                }
                taken.write(json.dumps(one) + "\n")
        return out


def read_labels(data: Path) -> dict[str, bool]:
    """By completion, whether it is right, as two independent checks agree or a reader found; empty without the file."""
    path = data / "responses.jsonl.gz"
    if not path.is_file():
        return {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {row["response"]: bool(row["label"]) for row in map(json.loads, lines)}


def _reason(path: Path) -> str:
    """Why the import turns a file away, without its name."""
    try:
        survey([recognise(open_file(path))], Stated())
    except StapoError as error:
        return str(error).removeprefix(f"{path}: ").split("; ")[0].split(" (columns")[0]
    return "samples of other questions than mathematics, or of the same problems in another version of the format"
