"""Samples in archives and compressed files: read as if they lay in a folder, within bounds, and nothing leads out."""

import gzip
import json
import struct
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.runs import read_samples
from stapo_bench.runs.importing import ImportOptions, import_run, unpacking


def rows(*answers: str) -> bytes:
    """A problem per answer."""
    found = [{"problem": f"{i}?", "completion": text, "answer": "1"} for i, text in enumerate(answers)]
    return "".join(json.dumps(row) + "\n" for row in found).encode()


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return path


def texts(run: Path) -> list[str]:
    return [sample.completion for sample in read_samples(run)]


def test_an_archive_is_read_as_a_folder_is(tmp_path):
    path = archive(tmp_path / "all.zip", {"a/s1.jsonl": rows("one"), "a/config.json": b"{}", "a/s0.jsonl": rows("two")})
    imported = import_run([path], tmp_path / "run", ImportOptions())
    assert texts(tmp_path / "run") == ["two", "one"]  # in order of their names: two samples of one problem
    assert [file.name for file in imported.manifest.about.imported] == ["s0.jsonl", "s1.jsonl"]
    assert imported.notes[0].startswith(f"1 file of {path} holds no samples: a/config.json: no format fits")


def test_folders_of_an_archive_are_not_mixed_into_one_run(tmp_path):
    path = archive(tmp_path / "all.zip", {"a/gsm/x.jsonl": rows("one"), "b/gsm/x.jsonl": rows("two")})
    with pytest.raises(StapoError, match=r"holds samples in 2 folders; name those of one run: .*all.zip/a/gsm, .*/b/"):
        import_run([path], tmp_path / "run", ImportOptions())
    import_run([path / "b"], tmp_path / "b", ImportOptions())
    import_run([path / "a" / "gsm" / "x.jsonl"], tmp_path / "a", ImportOptions())
    assert (texts(tmp_path / "a"), texts(tmp_path / "b")) == (["one"], ["two"])
    with pytest.raises(StapoError, match=r"expected files in c, got none; it has a/gsm, b/gsm"):
        import_run([path / "c"], tmp_path / "c", ImportOptions())


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_compressed_file_is_read_wherever_it_lies(kind, tmp_path):
    if kind == "zst":
        pa = pytest.importorskip("pyarrow")
        content = pa.compress(rows("one"), codec="zstd", asbytes=True)
    else:
        content = gzip.compress(rows("one"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / f"s.jsonl.{kind}").write_bytes(content)
    packed = archive(tmp_path / "x.zip", {f"s.{kind}": content})
    for number, path in enumerate((tmp_path / "folder" / f"s.jsonl.{kind}", tmp_path / "folder", packed)):
        import_run([path], tmp_path / f"run{number}", ImportOptions())
        assert texts(tmp_path / f"run{number}") == ["one"]


def inspect_log(sample: bytes) -> dict[str, bytes]:
    head = {"version": 2, "eval": {"task": "sums", "model": "M"}, "plan": {}}
    return {"header.json": json.dumps(head).encode(), "samples/1_epoch_1.json": sample}


SAMPLE = json.dumps(
    {"id": 1, "epoch": 1, "input": "1?", "target": "1", "output": {"choices": [{"message": {"content": "one"}}]}}
).encode()


def test_a_log_whose_members_are_compressed_with_zstd_is_read(tmp_path):
    pa = pytest.importorskip("pyarrow")
    packed = {name: pa.compress(text, codec="zstd", asbytes=True) for name, text in inspect_log(SAMPLE).items()}
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as opened:
        for name, content in packed.items():
            opened.writestr(name, content)
    content = bytearray((tmp_path / "log.eval").read_bytes())
    for magic, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the method: 0, stored, becomes 93
        place = content.find(magic)
        while place >= 0:
            content[place + at : place + at + 2] = struct.pack("<H", 93)
            place = content.find(magic, place + 1)
    (tmp_path / "log.eval").write_bytes(content)
    imported = import_run([tmp_path / "log.eval"], tmp_path / "run", ImportOptions())
    assert (texts(tmp_path / "run"), imported.manifest.about.model) == (["one"], "M")


def lying(path: Path) -> Path:
    """Its directory says that the member is small."""
    archive(path, {"s.jsonl": b" " * (20 << 20)})
    content = bytearray(path.read_bytes())
    for magic, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = content.find(magic)
        content[place + at : place + at + 4] = struct.pack("<I", 100)
    path.write_bytes(content)
    return path


def encrypted(path: Path) -> Path:
    archive(path, {"s.jsonl": rows("one")})
    content = bytearray(path.read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(magic) + at] |= 1
    path.write_bytes(content)
    return path


def broken(path: Path) -> Path:
    archive(path, {"s.jsonl": rows(*"abcdefgh")})
    content = bytearray(path.read_bytes())
    content[60] ^= 255
    path.write_bytes(content)
    return path


def compressed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


HOSTILE = {
    "leads out": (lambda p: archive(p, {"../../s.jsonl": rows("one")}), "a name that leads out of it"),
    "absolute": (lambda p: archive(p, {"/etc/s.jsonl": rows("one")}), "a name that leads out of it"),
    "drive": (lambda p: archive(p, {"C:\\s.jsonl": rows("one")}), "a name that leads out of it"),
    "bomb": (lambda p: archive(p, {"s.jsonl": b" " * (20 << 20)}), "unpacks to more than 250 times its"),
    "lying bomb": (lying, "(damaged|unpacks to more than 250 times|cannot be unpacked)"),
    "bomb of gzip": (lambda p: compressed(p, b" " * (20 << 20)), "unpacks to more than 250 times its"),
    "bomb in a bomb": (lambda p: archive(p, {"s.gz": gzip.compress(b" " * (20 << 20))}), "more than 250 times its"),
    "bomb in a log": (lambda p: archive(p, inspect_log(b" " * (20 << 20))), "more than 250 times its"),
    "many": (lambda p: archive(p, {f"{i}.jsonl": b"" for i in range(21)}), "expected at most 20 files in an archive"),
    "encrypted": (encrypted, "encrypted"),
    "broken": (broken, "(cannot be unpacked|damaged)"),
    "cut": (lambda p: compressed(p, rows("one")).write_bytes(p.read_bytes()[:-9]) and p, "cannot be unpacked"),
    "no files": (lambda p: archive(p, {}), "(expected files|neither JSON, nor a table)"),
    "no samples": (lambda p: archive(p, {"a.txt": b"hello"}), "expected files with samples, got none"),
    "archive in one": (lambda p: archive(p, {"a.zip": archive(p, {"x": b"y"}).read_bytes()}), "got none.*an archive"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_gets_one_line_and_leaves_nothing(name, tmp_path, monkeypatch):
    make, message = HOSTILE[name]
    monkeypatch.setattr(unpacking, "MOST_FILES", 20)
    (tmp_path / "in").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    path = make(tmp_path / "in" / "x.zip")
    result = CliRunner().invoke(cli, ["import", str(path), "--out", str(tmp_path / "run")])
    assert isinstance(result.exception, StapoError), result.exception
    with pytest.raises(StapoError, match=message):
        raise result.exception
    assert "\n" not in str(result.exception)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["in", "in/x.zip", "tmp"]


def test_more_than_is_unpacked_at_most_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MOST_BYTES", 1000)
    monkeypatch.setattr(unpacking.refuse_bomb, "__defaults__", (1000,))
    path = archive(tmp_path / "x.zip", {"a.jsonl": rows("x" * 600), "b.jsonl": rows("y" * 600)})
    with pytest.raises(StapoError, match=r"unpacks to more than 1000 bytes; unpack it, and import its files"):
        import_run([path], tmp_path / "run", ImportOptions())


def test_a_file_that_nothing_here_unpacks_is_named_with_what_would(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "x.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")
    with pytest.raises(StapoError) as error:
        import_run([tmp_path], tmp_path / "run", ImportOptions())
    said = f"{tmp_path}/x.jsonl.zst: compressed with zstd: pyarrow is not installed: pip install 'stapo-bench[parquet]'"
    assert str(error.value) == said


def test_the_table_of_an_import_is_that_of_score(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(rows("\\boxed{1}", "\\boxed{2}"))
    run = str(tmp_path / "run")
    imported = CliRunner().invoke(cli, ["import", str(tmp_path / "a.jsonl"), "--out", run])
    scored = CliRunner().invoke(cli, ["score", run])
    assert (imported.exit_code, scored.exit_code) == (0, 0)
    assert imported.stdout.endswith(f"\n\n{scored.stdout}") and "50.00" in scored.stdout
