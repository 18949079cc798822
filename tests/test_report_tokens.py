"""The tokens of dumped responses in the report."""

import json

import pytest
from report_setup import PLANTED

from stapo_bench.errors import StapoError
from stapo_bench.presenting.report.encode import unpack
from stapo_bench.presenting.report.tokens import collect_tokens


def dump(folder, lines):
    (folder / "dumps" / "iteration-000001").mkdir(parents=True)
    (folder / "dumps" / "iteration-000001" / "dump.json").write_text("{}")
    if lines is not None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "dumps" / "iteration-000001" / "tokens.jsonl").write_text(text)
    return folder


HEADER = {"objective": "stapo", "thresholds": {"tau_h": 1.25}}
RESPONSE = {
    "prompt": "1 + 1?",
    "advantage": -0.5,
    "text": ["2", PLANTED, "."],
    "prob": [0.9, 0.001, 0.5],
    "entropy": [0.1, 2.0, 0.3],
    "mark": ".sc",
    "top": [[["2", 0.9]], [["a", 0.6], ["b", 0.3]], [[".", 0.5]]],
}


def test_tokens_are_packed_by_response(tmp_path):
    found, notes = collect_tokens([dump(tmp_path / "run", [HEADER, RESPONSE])])
    assert notes == []
    (batch,) = found.index
    assert batch["name"] == "run/iteration-000001" and batch["thresholds"] == {"tau_h": 1.25}
    assert batch["responses"] == [
        {"chunk": "tokens-0-0", "advantage": -0.5, "tokens": 3, "silenced": 1, "candidates": 2}
    ]
    assert unpack(found.chunks["tokens-0-0"]) == RESPONSE


def test_a_dump_without_tokens_says_what_makes_them(tmp_path):
    found, notes = collect_tokens([dump(tmp_path / "run", None)])
    assert found.index == [] and "stapo-train audit" in notes[0] and notes[0].endswith("--tokens' makes them")


def test_damaged_tokens_are_named(tmp_path):
    folder = dump(tmp_path / "run", [HEADER, RESPONSE, RESPONSE | {"mark": "."}])
    with pytest.raises(StapoError, match=r"tokens.jsonl, line 3: expected the tokens of a response"):
        collect_tokens([folder])
