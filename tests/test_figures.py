"""Figures: the values that are drawn, the bytes that are written, and what is said when data is missing."""

import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from stapo_bench import cli
from stapo_bench.figures import TITLES, MissingDataError, Sources, available, render, render_svg
from stapo_bench.figures.registry import REGISTRY
from stapo_bench.figures.render import figure


def write_log(folder: Path, rows=None, *, name="stapo", seed=0, out=None, **objective) -> Path:
    """A training log; rows: fields of its iterations that differ from plain ones."""
    folder.mkdir(parents=True)
    config = {"out": out or str(folder), "seed": seed, "objective": {"name": name, **objective}, "optim": {"lr": 1e-4}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    plain = {"entropy": 0.5, "reward": 0.25, "response_length": 8.0, "masked_share": 0.0}
    lines = [json.dumps({"iteration": i, **plain, **row}) for i, row in enumerate(rows or [{}] * 12, start=1)]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def axes_of(name: str, sources: Sources):
    """The panels of a figure, drawn."""
    return figure(name, sources).axes


def drawn(ax) -> dict[str, tuple[list[float], list[float]]]:
    """Label to (x, y) of the lines of a panel."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.get_lines()}


def band(ax, number=0) -> np.ndarray:
    """Corners of a band, [num_corners, 2]."""
    return ax.collections[number].get_paths()[0].vertices


# -- over iterations --------------------------------------------------------------------------------------------------


def test_a_line_per_method_in_the_order_of_tables(tmp_path):
    write_log(tmp_path / "a", [{"entropy": 0.4}, {"entropy": 0.3}, {"entropy": None}])
    write_log(tmp_path / "b", [{"entropy": 0.5}, {"entropy": 0.25}], name="grpo")
    (ax,) = axes_of("entropy", Sources(logs=[tmp_path]))
    lines = drawn(ax)
    assert list(lines) == ["GRPO", "STAPO"]
    assert lines["GRPO"] == ([1, 2], [0.5, 0.25])
    assert lines["STAPO"][0] == [1, 2, 3]
    assert lines["STAPO"][1] == pytest.approx([0.4, 0.3, np.nan], nan_ok=True)  # not measured: a gap, not a zero


def test_seeds_become_a_mean_with_a_band_from_least_to_greatest(tmp_path):
    for seed, rewards in enumerate([(0.1, 0.2, 0.9), (0.3, 0.6)]):
        write_log(tmp_path / f"s{seed}", [{"reward": r} for r in rewards], seed=seed)
    (ax,) = axes_of("reward", Sources(logs=[tmp_path]))
    assert drawn(ax)["STAPO"] == ([1, 2], pytest.approx([0.2, 0.4]))  # only where both seeds are
    corners = {tuple(np.round(corner, 9)) for corner in band(ax)}
    assert corners == {(1, 0.1), (2, 0.2), (1, 0.3), (2, 0.6)}
    assert [text.get_text() for text in ax.figure.legends[1].get_texts()] == ["band: min–max over seeds"]


def test_settings_that_differ_are_lines_of_their_own(tmp_path):
    write_log(tmp_path / "a")
    write_log(tmp_path / "b", tau_p=0.01)
    (ax,) = axes_of("length", Sources(logs=[tmp_path]))
    assert list(drawn(ax)) == ["STAPO", r"STAPO ($\tau_p$=0.01)"]
    assert len({line.get_color() for line in ax.get_lines()}) == 1
    assert len({line.get_marker() for line in ax.get_lines()}) == 2


def test_quantiles_have_a_panel_each(tmp_path):
    write_log(tmp_path / "a", [{"entropy_quantiles": {"0.5": 0.1, "0.99": 2.0}}] * 2)
    first, second = axes_of("entropy-quantiles", Sources(logs=[tmp_path]))
    assert (first.get_title(), second.get_title()) == ("50 % quantile", "99 % quantile")
    assert drawn(second)["STAPO"][1] == [2.0, 2.0]


def test_the_masked_ratio_is_logarithmic_without_zeros(tmp_path):
    write_log(tmp_path / "a", [{"masked_share": share} for share in (1e-3, 0.0, 1e-4)])
    write_log(tmp_path / "b", name="grpo")
    (ax,) = axes_of("masked", Sources(logs=[tmp_path]))
    assert ax.get_yscale() == "log"
    assert list(drawn(ax)) == ["STAPO"]
    assert drawn(ax)["STAPO"][1] == pytest.approx([1e-3, np.nan, 1e-4], nan_ok=True)


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


def test_only_figures_with_data_are_available(tmp_path):
    assert available(Sources()) == []
    log = write_log(tmp_path / "a")
    assert available(Sources(logs=[log])) == ["entropy", "reward", "length"]


def test_help_names_every_plot(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stapo-bench", "plot", "--help"])
    cli.main()
    named = set(re.findall(r"[a-z-]+", capsys.readouterr().out))
    assert set(REGISTRY) <= named
