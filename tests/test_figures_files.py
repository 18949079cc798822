"""Figures as files: the bytes that are written, and what is said when data is missing."""

import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import yaml
from figure_setup import write_log
from PIL import Image

from stapo_bench import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting.figures import TITLES, MissingDataError, Sources, available, render, render_svg
from stapo_bench.presenting.figures.registry import REGISTRY
from stapo_bench.presenting.figures.sources import training_folders
from stapo_bench.runs.sealed import seal
from stapo_train.inspect.stability import read_entropies

# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["pdf", "svg", "png"])
def test_the_same_input_gives_the_same_bytes(tmp_path, format_):
    log = write_log(tmp_path / "a")
    assert render("entropy", Sources(logs=[log]), format_) == render("entropy", Sources(logs=[log]), format_)


def test_the_command_is_in_the_metadata(tmp_path, monkeypatch, capsys):
    log = write_log(tmp_path / "a")
    for ending in ("pdf", "svg", "png"):
        out = tmp_path / f"fig.{ending}"
        monkeypatch.setattr(sys, "argv", ["stapo-bench", "plot", "entropy", "--train", str(log), "-o", str(out)])
        cli.main()
        command = f"stapo-bench plot entropy --train {log} -o {out}"
        content = out.read_bytes()
        if ending == "pdf":
            assert f"/Subject ({command})".encode() in content
            assert b"Date" not in content
        elif ending == "svg":
            described = ET.fromstring(content).find(".//{http://purl.org/dc/elements/1.1/}description")
            assert described.text == command
        else:
            assert Image.open(io.BytesIO(content)).text["Description"] == command
        assert capsys.readouterr().out.startswith(f"{out}: Entropy over iterations. ")


def test_a_size_for_one_column_of_a_page_and_fonts_that_are_embedded(tmp_path):
    content = render("entropy", Sources(logs=[write_log(tmp_path / "a")]), "pdf")
    assert b"/MediaBox [ 0 0 234 " in content  # 3.25 inches
    assert b"/Type3" not in content


def test_figures_in_one_page_share_no_id_and_take_its_colours(tmp_path):
    sources = Sources(logs=[write_log(tmp_path / "a")])
    seen: set[str] = set()
    for name in ("entropy", "reward"):
        text = render_svg(name, sources)
        root = ET.fromstring(text)
        ids = {element.get("id") for element in root.iter() if element.get("id")}
        used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
        assert used and used <= ids
        assert not ids & seen
        seen |= ids
        assert root.get("aria-label") == TITLES[name]
        assert "currentColor" in text and "#1b1b1b" not in text
        assert "<?xml" not in text and "<!DOCTYPE" not in text and "<metadata" not in text
        assert text == render_svg(name, sources)


# -- what is missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGISTRY)
def test_missing_data_is_one_line_with_the_command_that_makes_it(name):
    with pytest.raises(MissingDataError) as error:
        render(name, Sources(), "svg")
    message = str(error.value)
    assert re.match(rf"{name}: expected .*, got .*'stapo-(bench|train) ", message) and "\n" not in message


def test_errors_of_names_and_formats_list_what_there_is(tmp_path):
    sources = Sources(logs=[write_log(tmp_path / "a")])
    with pytest.raises(UsageError, match="unknown plot 'entropi': expected one of accuracy, entropy, "):
        render("entropi", sources, "svg")
    with pytest.raises(UsageError, match="unknown format 'jpg' of a figure: expected pdf, svg, png"):
        render("entropy", sources, "jpg")


def test_a_damaged_log_is_named_with_its_line(tmp_path):
    log = write_log(tmp_path / "a")
    with (log / "metrics.jsonl").open("a") as file:
        file.write('{"entropy": 1}\n{"iteration": 14, "entr')  # the last line is being written: no fault
    with pytest.raises(StapoError, match=r"metrics.jsonl:13: expected an iteration, got KeyError\('iteration'\)"):
        available(Sources(logs=[log]))
    sealed = [seal({"iteration": i, "entropy": 0.5}) for i in range(1, 13)]
    (log / "metrics.jsonl").write_bytes(b"".join([*sealed[:4], sealed[4].replace(b"0.5", b"0.7"), *sealed[5:]]))
    with pytest.raises(StapoError, match=r"metrics.jsonl:5: expected an iteration, got ValueError.*crc32"):
        available(Sources(logs=[log]))
    with pytest.raises(StapoError, match=r"metrics.jsonl:5: expected an iteration with its entropy, got .*crc32"):
        read_entropies(log)
    (log / "config.yaml").unlink()
    with pytest.raises(StapoError, match=r"expected config.yaml beside metrics.jsonl, found none"):
        available(Sources(logs=[log]))
    with pytest.raises(StapoError, match=r"expected a training log \(metrics.jsonl\), found none"):
        available(Sources(logs=[tmp_path / "b"]))


def test_a_finished_training_has_all_its_lines(tmp_path):
    log = write_log(tmp_path / "a")
    config = yaml.safe_load((log / "config.yaml").read_text())
    (log / "config.yaml").write_text(yaml.safe_dump({**config, "iterations": 13}))
    assert available(Sources(logs=[log])) == ["entropy", "reward", "length"]  # it may still go on
    (log / "checkpoints" / "final").mkdir(parents=True)
    with pytest.raises(StapoError, match=r"metrics.jsonl: expected the 13 iterations of a finished training, got 12 "):
        available(Sources(logs=[log]))


def test_only_figures_with_data_are_available(tmp_path):
    assert available(Sources()) == []
    log = write_log(tmp_path / "a")
    assert available(Sources(logs=[log])) == ["entropy", "reward", "length"]


def test_help_names_every_plot(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stapo-bench", "plot", "--help"])
    cli.main()
    named = set(re.findall(r"[a-z-]+", capsys.readouterr().out))
    assert set(REGISTRY) <= named


def test_pretraining_beside_the_trainings_is_no_training_log(tmp_path):
    for name, files in (("base", ["metrics.jsonl"]), ("stapo", ["metrics.jsonl", "config.yaml"])):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    assert training_folders(tmp_path) == [tmp_path / "stapo"]


def test_a_command_draws_where_a_notebook_names_a_backend_that_is_not_there(tmp_path):
    log, out = write_log(tmp_path / "a"), tmp_path / "fig.svg"
    drawn = subprocess.run(
        [sys.executable, "-m", "stapo_bench", "plot", "entropy", "--train", str(log), "-o", str(out)],
        env={**os.environ, "MPLBACKEND": "module://a_kernels_own.backend"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert ET.parse(out).getroot().tag.endswith("svg")
