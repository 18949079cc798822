"""Figures: the values that are drawn, the bytes that are written, and what is said when data is missing."""

import io
import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors.numpy import save_file

from stapo_bench import cli
from stapo_bench.draws import load_run
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.figures import TITLES, MissingDataError, Sources, available, render, render_svg
from stapo_bench.figures.registry import REGISTRY
from stapo_bench.figures.render import figure
from stapo_bench.figures.settings import entropy_stability, threshold
from stapo_bench.figures.sources import Training, training_folders
from stapo_bench.figures.style import METHODS
from stapo_bench.figures.tokens import Tokens, gradient_bounds
from stapo_bench.intervals import normal_quantile, sampling_interval
from stapo_bench.paired import paired_difference
from stapo_bench.sealed import seal
from stapo_train.stability import read_entropies, stability
from stapo_train.statistics import logit_gradient_norm_bounds


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


def drawn_line(line) -> tuple[str, list[float], list[float]]:
    return line.get_label(), list(line.get_xdata()), list(line.get_ydata())


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


# -- from runs --------------------------------------------------------------------------------------------------------


def trained(make_run, name, tasks, *, training, step, **about):
    """A run of a checkpoint that ``training`` made."""
    return make_run(
        name,
        tasks,
        about={"checkpoint": f"{training}/checkpoints/step-{step}", "step": step, "method": "STAPO", **about},
    )


BASE = {"method": "Base", "step": 1400}


def test_accuracy_starts_at_the_base_model(make_run):
    runs = [
        trained(make_run, "s20", {"t": [[1, 1], [0, 0]]}, training="runs/a", step=20),
        trained(make_run, "s10", {"t": [[1, 0], [0, 0]]}, training="runs/a", step=10),
        make_run("base", {"t": [[0, 0], [0, 0]]}, about=BASE),
    ]
    (ax,) = axes_of("accuracy", Sources(runs=runs))
    assert drawn(ax) == {"STAPO": ([0, 10, 20], [0.0, 0.25, 0.5])}
    assert ax.figure.legends[1].get_texts()[0].get_text() == "band: 95 % interval, these problems"
    low, high = sampling_interval(np.array([[1.0, 1.0], [0.0, 0.0]]), normal_quantile(0.95)).__dict__.values()
    at_20 = sorted(y for x, y in np.unique(band(ax), axis=0) if x == 20)
    assert at_20 == pytest.approx([low, high])


def test_a_run_whose_step_is_not_known_is_no_base_model(make_run):
    runs = [make_run("a", {"t": [[1, 1]]}), trained(make_run, "b", {"t": [[1, 1]]}, training="runs/b", step=5)]
    assert "accuracy" not in available(Sources(runs=runs))
    runs[0] = make_run("c", {"t": [[1, 1]]}, about={"method": "Tiny", "model": None})  # what b says it was trained from
    assert "accuracy" in available(Sources(runs=runs))


def test_checkpoints_of_different_trainings_are_not_joined_but_seeds_are(make_run, tmp_path):
    runs = [
        trained(make_run, f"{training}-{step}", {"t": [[value] * 2] * 2}, training=f"runs/{training}", step=step)
        for training, step, value in (("a", 10, 0), ("a", 20, 1), ("b", 10, 1), ("b", 20, 1))
    ]
    (ax,) = axes_of("accuracy", Sources(runs=runs))
    assert drawn(ax) == {"STAPO, a": ([10, 20], [0.0, 1.0]), "STAPO, b": ([10, 20], [1.0, 1.0])}
    twin = trained(make_run, "c", {"t": [[1, 1]] * 2}, training="other/b", step=10)
    (ax,) = axes_of("accuracy", Sources(runs=[*runs, twin, make_run("base", {"t": [[0, 0]] * 2}, about=BASE)]))
    assert list(drawn(ax)) == ["STAPO, a", "STAPO, runs/b", "STAPO, other/b"]
    logs = [write_log(tmp_path / "logs" / name, seed=i, out=f"runs/{name}") for i, name in enumerate("ab")]
    (ax,) = axes_of("accuracy", Sources(runs=runs, logs=logs))
    assert drawn(ax) == {"STAPO": ([10, 20], [0.5, 1.0])}
    assert {tuple(corner) for corner in band(ax)} == {(10, 0.0), (10, 1.0), (20, 1.0)}
    assert ax.figure.legends[1].get_texts()[0].get_text() == "band: min–max over training seeds"


def test_pass_at_k_is_the_unbiased_estimate_per_task_and_decoding(make_run):
    rows = [[1, 0, 0, 0], [1, 1, 0, 0]]
    cold = {"identity": {"sampling": {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 64}}}
    runs = [make_run("a", {"t": rows, "u": rows}), make_run("b", {"t": rows, "u": rows}, **cold)]
    axes = axes_of("pass-at-k", Sources(runs=runs))
    titles = [ax.get_title() for ax in axes]
    assert titles == [f"{task}\n{words}" for words in ("T=1.0, top-p 1.0", "T=0.7, top-p 0.9") for task in "TU"]
    # 1 - C(3, 2) / C(4, 2) = 1/2 and 1 - C(2, 2) / C(4, 2) = 5/6
    assert drawn(axes[0])["a"] == ([1, 2, 4], pytest.approx([3 / 8, 2 / 3, 1.0]))


def test_the_budget_counts_longer_samples_as_wrong(make_run):
    run = make_run(
        "a",
        {"t": [[1, 1], [1, 0]]},
        identity={"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}},
        sample=lambda task, row, index: {"num_tokens": 100 if row == 0 and index == 1 else 10},
    )
    (ax,) = axes_of("budget", Sources(runs=[run]))
    assert drawn(ax)["a"] == ([64, 128], [0.5, 0.75])


def test_the_heat_map_has_easy_problems_on_top_and_runs_in_the_order_of_tables(make_run):
    stapo = make_run("s", {"t": [[0, 0], [1, 1], [1, math.nan]]}, about={"method": "STAPO"})
    grpo = make_run("g", {"t": [[0, 1], [1, 1], [0, 0]]}, about={"method": "GRPO"})
    sources = Sources(runs=[stapo, grpo])
    (heat_map,) = REGISTRY["problems"].read(sources)
    assert heat_map.problems == ("t-1", "t-2", "t-0")  # means 1, 1/2 and 1/4
    assert heat_map.runs == ("GRPO", "STAPO")
    assert heat_map.rates.tolist() == [[1.0, 1.0], [0.0, 1.0], [0.5, 0.0]]
    ax = axes_of("problems", sources)[0]
    image = ax.images[0].get_array()
    assert image[:: len(image) // 3, :: image.shape[1] // 2].tolist() == heat_map.rates.tolist()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["GRPO", "STAPO"]


def test_a_problem_without_a_decided_sample_stays_blank(make_run):
    run = make_run("a", {"t": [[1, 0], [math.nan, math.nan]]})
    image = axes_of("problems", Sources(runs=[run]))[0].images[0].get_array()
    assert image.mask.mean() == 0.5


def intervals_drawn(ax) -> list[tuple[float, list[float]]]:
    """Width and ends of the horizontal bars of a forest plot."""
    return [(line.get_linewidth(), list(line.get_xdata())) for line in ax.get_lines() if len(line.get_xdata()) == 2]


def test_differences_are_paired_and_carry_both_intervals_by_name(make_run):
    base = make_run("b", {"t": [[0, 0], [0, 1], [1, 0]]}, about={"method": "Base"})
    stapo = make_run("s", {"t": [[1, 0], [0, 1], [1, 1]]}, about={"method": "STAPO"}, identity={"seed": 1})
    (ax,) = axes_of("differences", Sources(runs=[stapo, base]))
    assert ax.get_title() == "STAPO − Base"
    a, b = (run.outcomes("t")[0] for run in (load_run(base), load_run(stapo)))
    like, these = (paired_difference(a, b, error).interval() for error in ("problems like these", "these problems"))
    zero, thin, thick = intervals_drawn(ax)
    assert zero[1] == [0.0, 0.0]
    assert thin == (0.9, pytest.approx([like.low, like.high]))
    assert thick == (3.4, pytest.approx([these.low, these.high]))
    assert list(ax.get_lines()[-1].get_xdata()) == pytest.approx([1 / 3])
    named = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert named == ["95 %, problems like these", "95 %, these problems"]


def test_the_mean_over_tasks_is_the_last_row(make_run):
    tasks = {"t": [[0, 1]] * 3, "u": [[1, 1]] * 3}
    runs = [make_run("a", tasks), make_run("b", tasks)]
    (ax,) = axes_of("differences", Sources(runs=runs))
    assert ax.get_title() == "b − a"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["T", "U", "mean of 2 tasks"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row on top


def test_the_ablation_takes_the_last_checkpoint_of_each_mask(make_run):
    runs = [
        make_run(f"{name}{step}", {"t": [[value] * 2] * 2}, about={"method": name, "step": step})
        for name, step, value in (("Random mask", 1, 0), ("Random mask", 2, 1), ("STAPO", 2, 0), ("GRPO", 2, 0))
    ]
    (ax,) = axes_of("ablation", Sources(runs=runs))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["low entropy (STAPO)", "random"]
    points = [line.get_xdata()[0] for line in ax.get_lines() if len(line.get_xdata()) == 1]
    assert points == [0.0, 1.0]


# -- from runs and logs -----------------------------------------------------------------------------------------------


def test_stability_is_the_trainers():
    entropies = [0.5, 0.4, 0.45, 0.5, 0.4, 0.3, 0.6, 0.2, 0.1, 0.3, 0.35]
    assert entropy_stability(entropies) == pytest.approx(stability(entropies).score, rel=1e-12)
    assert math.isnan(entropy_stability(entropies[:9]))


def test_pareto_places_and_front(make_run, tmp_path):
    def sources():
        for name, steady, right in (("steady", 0.5, 0.25), ("good", 0.25, 0.75), ("neither", 0.25, 0.5)):
            rows = [{"entropy": 0.5}] * 5 + [{"entropy": steady}] * 5
            log = write_log(tmp_path / "logs" / name, rows, out=f"runs/{name}", alpha=len(name))
            samples = [1] * int(4 * right) + [0] * int(4 - 4 * right)
            yield log, trained(make_run, name, {"t": [samples] * 2}, training=f"/elsewhere/runs/{name}", step=5)

    logs, runs = zip(*sources(), strict=True)
    both = Sources(runs=runs, logs=logs)
    (plane,) = REGISTRY["pareto"].read(both)
    assert {(p.stability, p.accuracy) for p in plane.places} == {(1.0, 0.25), (0.5, 0.75), (0.5, 0.5)}
    assert plane.front == [(0.5, 0.75), (1.0, 0.25)]
    (ax,) = axes_of("pareto", both)
    front = ax.get_lines()[-1]
    assert list(zip(front.get_xdata(), front.get_ydata(), strict=True)) == plane.front


def test_sensitivity_has_a_line_per_other_setting_and_the_default_where_none_is_stated(make_run, tmp_path):
    runs, logs = [], []
    for name, settings, right in (
        ("plain", {}, [1, 1]),
        ("rare", {"tau_p": 0.0005}, [1, 0]),
        ("half", {"q": 0.5}, [0, 0]),
    ):
        logs.append(write_log(tmp_path / "logs" / name, out=f"runs/{name}", **settings))
        runs.append(trained(make_run, name, {"t": [right] * 2}, training=f"runs/{name}", step=5))
    over_tau, over_q = axes_of("sensitivity", Sources(runs=runs, logs=logs))
    line, *_ = over_tau.get_lines()
    assert drawn_line(line) == ("$q$=0.75", [0.0005, 0.002], [0.5, 1.0])
    line, *_ = over_q.get_lines()
    assert drawn_line(line) == (r"$\tau_p$=0.002", [0.5, 0.75], [0.0, 1.0])
    assert (over_tau.get_xscale(), over_q.get_xscale()) == ("log", "linear")


def test_labels_and_defaults_are_the_trainers():
    from stapo_train.objectives import REGISTRY as OBJECTIVES

    labels = {name: method.label for name, method in METHODS.items() if name != "base"}
    assert labels == {name: objective.label for name, objective in OBJECTIVES.items()}
    for name in ("stapo", "stapo-old"):
        training = Training(folder=Path(), out=Path(), seed=0, objective={"name": name}, config={}, records=())
        for setting in ("tau_p", "q"):
            assert threshold(training, setting) == getattr(OBJECTIVES[name](), setting)


# -- tokens -----------------------------------------------------------------------------------------------------------


def write_dump(log: Path, iteration: int, probs, entropies, advantages) -> None:
    """A dumped mini-batch of one-token responses."""
    folder = log / "dumps" / f"iteration-{iteration:06d}"
    (folder / "model").mkdir(parents=True)
    (folder / "dump.json").write_text("{}")
    (folder / "model" / "config.json").write_text(json.dumps({"vocab_size": 50}))
    save_file(
        {
            "old_log_probs": np.log(np.array(probs, dtype=np.float32)),
            "entropy": np.array(entropies, dtype=np.float32),
            "row_advantages": np.array(advantages, dtype=np.float32),
            "response_lengths": np.ones(len(probs), dtype=np.int64),
        },
        folder / "batch.safetensors",
    )


@pytest.fixture
def dumped(tmp_path) -> Sources:
    """A log with two dumps; the later one had no candidates. tau_p = 0.01, tau_h = 1."""
    log = write_log(
        tmp_path / "a", [{"thresholds": {"tau_h": [9.0, 1.0]}}, {"thresholds": {"tau_h": [1.0, None]}}], tau_p=0.01
    )
    write_dump(log, 1, [0.001, 0.001, 0.001, 0.5, 0.5], [0.5, 0.5, 2.0, 0.5, 2.0], [1.0, -2.0, 1.0, 1.0, 0.0])
    write_dump(log, 2, [0.5], [0.5], [1.0])
    return Sources(logs=[log])


def test_tokens_by_probability_and_entropy_with_the_silenced_quadrant(dumped):
    (ax,) = axes_of("tokens", dumped)
    found = {c.get_label(): np.round(c.get_offsets(), 6).tolist() for c in ax.collections}
    assert found == {
        "A ≤ 0": [[0.001, 0.5], [0.5, 2.0]],
        "A > 0": [[0.001, 2.0], [0.5, 0.5]],
        "silenced": [[0.001, 0.5]],
    }
    quadrant = ax.patches[0]
    assert quadrant.get_x() + quadrant.get_width() == pytest.approx(0.01)
    assert (quadrant.get_y(), quadrant.get_height()) == (0.0, 1.0)
    assert ax.get_xscale() == "log"


def test_an_objective_that_silences_nothing_has_no_quadrant(tmp_path):
    log = write_log(tmp_path / "a", [{}], name="grpo")
    write_dump(log, 1, [0.5], [0.5], [1.0])
    (ax,) = axes_of("tokens", Sources(logs=[log]))
    assert not ax.patches
    assert "gradients" not in available(Sources(logs=[log]))


def test_gradient_norms_per_quadrant(dumped):
    (ax,) = axes_of("gradients", dumped)
    # low pi, low H: A = 1 and -2 at pi = 0.001, H = 0.5. Least: A^2 (1 - 0.002 + e^-0.5), e^-0.5 = 0.606531
    least = math.sqrt((1 + 4) / 2 * (0.998 + 0.606531))
    most = math.sqrt((1 + 4) / 2 * (0.998 + 1 - 49 / (50 * math.log(50) ** 2) * 0.25))
    first = ax.patches[0]
    assert (first.get_x(), first.get_x() + first.get_width()) == (pytest.approx(least), pytest.approx(most))
    counts = [text.get_text() for text in ax.texts]
    assert counts == ["n = 2", "n = 1", "n = 1", "n = 0"]  # the token without advantage has no gradient


def test_gradient_bounds_hold_and_lie_within_the_papers():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 40)) * rng.uniform(0.1, 6, size=(200, 1))
    pi = np.exp(logits - logits.max(axis=1, keepdims=True))
    pi /= pi.sum(axis=1, keepdims=True)
    taken, advantage = pi[:, 0], rng.normal(size=200)
    entropy = -(pi * np.log(pi)).sum(axis=1)
    found = Tokens(title="", prob=taken, entropy=entropy, advantage=advantage, vocabulary=40, tau_p=0.1, tau_h=1.0)
    least, most = gradient_bounds(found)
    exact = advantage**2 * (1 - 2 * taken + (pi**2).sum(axis=1))
    assert (least <= exact + 1e-12).all() and (exact <= most + 1e-12).all()
    low, high = logit_gradient_norm_bounds(*map(torch.from_numpy, (advantage, taken, entropy)), vocabulary=40)
    assert (least >= low.numpy() - 1e-12).all() and (most <= high.numpy() + 1e-9).all()


def test_a_hatched_bar_keeps_its_colour_in_a_page(dumped):
    text = render_svg("gradients", dumped)
    assert 'fill="#d55e00"' in text and 'id="gradients-h' in text


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
