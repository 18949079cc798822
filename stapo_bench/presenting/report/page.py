"""The page: everything a report shows in one HTML file that needs no network.

    size = write_report(Contents(runs=[Path("results/base"), Path("results/stapo")]), Path("report.html"))

Nothing that a model wrote can run or break the page. Text from outside reaches it in three ways only: escaped by
the template (Jinja's autoescape), inside JSON that cannot end its element (``encode``), or compressed; scripts put it
into the page as text, never as HTML. The Content-Security-Policy allows the page's own scripts and style by their
hashes and nothing else: no other script, no event handler in an attribute, no request.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stapo_bench import __version__
from stapo_bench.errors import StapoError, UsageError, missing_package, safe_text, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.figures import TITLES, Sources, available, caption, render_svg
from stapo_bench.presenting.report.data import collect
from stapo_bench.presenting.report.encode import json_island, script_hash
from stapo_bench.presenting.report.overview import overview
from stapo_bench.presenting.report.tokens import collect_tokens, dumps
from stapo_bench.presenting.report.verdict_views import MOST_PAIRED
from stapo_bench.runs import nothing_left_behind, own_folder, refuse_foreign, write_parts, writing

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).resolve().parent
PAGE_BEGINS = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"""
"""How our pages begin, by which a file that is none is not replaced by one."""
KATEX = _FOLDER / "vendor" / "katex.min.js"
"""KaTeX 0.19.1 (MIT), dist/katex.min.js of its npm package; it writes MathML, so its fonts and styles stay behind."""
KATEX_SHA256 = "fa140498b8cfc8302cbe5e7cb1bdbc1f952bc38b3fa258ede09e73edbf9a74bc"

_SCRIPTS = ("core", "math", "list", "search", "samples", "detail", "tokens", "table", "main")
_LIVE_SCRIPT = "live"
_COLUMN = 300.0  # points: more than one column of a paper


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a report is about."""

    runs: Sequence[Path]
    logs: Sequence[Path] = ()  # training runs, folders of them, or dumps
    grader: str = DEFAULT_GRADER
    data_dir: Path | None = None
    published: bool = False  # the paper's rows in the main table
    baseline: Path | None = None  # the one of the runs that the others are compared with; None: the base model


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure as it stands in the page."""

    name: str
    title: str
    caption: str
    svg: str

    @property
    def is_wide(self) -> bool:
        """Drawn for both columns of a paper."""
        width = re.search(r'<svg\b[^>]*?\swidth="([\d.]+)pt"', self.svg)
        return width is not None and float(width[1]) > _COLUMN


def write_report(contents: Contents, out: Path) -> int:
    """Write the page; returns its size in bytes."""
    refuse_foreign(out, PAGE_BEGINS)
    with nothing_left_behind(out.parent):
        with writing(out):  # before the work: what cannot be written need not be made
            own_folder(out.parent)
        write_parts(out, page_parts(contents))
    return out.stat().st_size


def render_page(contents: Contents, version: str | None = None) -> str:
    """The page as one text; arguments as for ``page_parts``."""
    return "".join(page_parts(contents, version))


def page_parts(contents: Contents, version: str | None = None) -> Iterator[str]:
    """The page in parts, so that its texts, the most of it, need not be copied into one.

    Args:
        contents: what it is about.
        version: names this state of runs that still grow; the page then asks its server for later ones.
    """
    if not contents.runs:
        raise UsageError("nothing to report: expected at least one run folder")
    for log in contents.logs:
        if not _has_metrics(log) and not any(dumps(_with_dumps([log]))):
            raise StapoError(
                f"{log}: expected a training run (metrics.jsonl, dumps/), a folder of them or a dump, found none; "
                "'stapo-train' writes one"
            )
    samples = collect(contents.runs, contents.grader, contents.data_dir)
    tokens, notes = collect_tokens(_with_dumps(contents.logs))
    data = Sources(runs=tuple(contents.runs), logs=tuple(filter(_has_metrics, contents.logs)), grader=contents.grader)
    shown = overview(data, published=contents.published, baseline=contents.baseline)
    scripts = ["vendor/katex.min.js", *(f"js/{name}.js" for name in _SCRIPTS)]
    scripts += [f"js/{_LIVE_SCRIPT}.js"] * (version is not None)
    sources = [_asset(name) for name in scripts]
    style = _asset("style.css")
    verdicts = [
        *(one.markdown for one in shown.comparisons),
        *(one.markdown for one in (*shown.methods, *shown.several)),
        *(pair.verdict.markdown if pair.verdict else "" for pair in shown.pairs),
    ]
    islands = {
        "index": samples.index,
        "tokens": tokens.index,
        "copies": {
            "table": [{"markdown": block.markdown, "latex": block.latex} for block in shown.blocks],
            "verdict": [{"markdown": text} for text in verdicts],
        },
    }
    drawn, not_drawn = figures(data)
    return page_template(_FOLDER).generate(
        title=_title(samples.index["runs"]),
        policy=content_policy(sources, [style], live=version is not None),
        style=style,
        scripts=sources,
        islands={name: json_island(value) for name, value in islands.items()},
        chunks={**samples.chunks, **tokens.chunks},
        overview=shown,
        figures=drawn,
        figure_notes=not_drawn,
        tokens=tokens,
        token_notes=notes,
        num_samples=samples.num_samples,
        runs=samples.index["runs"],
        most_paired=MOST_PAIRED,
        software=f"stapo-bench {__version__}",
        version=version,
    )


def page_template(folder: Path) -> "Template":
    """A folder's ``page.html.jinja``; every text that is put into it is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    return environment.get_template("page.html.jinja")


def _visible(value: Any) -> Any:
    """A text from outside, in which everything can be seen; the template then escapes it for HTML."""
    return safe_text(value, "terminal") if isinstance(value, str) and not hasattr(value, "__html__") else value


def content_policy(scripts: Sequence[str], styles: Sequence[str], *, live: bool = False) -> str:
    """The Content-Security-Policy: what stands in the page by its hash, and nothing from elsewhere.

    A live page may ask its own server for news.
    """
    parts = {
        "default-src": ["'none'"],
        "script-src": [script_hash(text) for text in scripts],
        "style-src": [script_hash(text) for text in styles],
        "worker-src": ["blob:"],  # which the page makes of its own script: those that search
        "img-src": ["data:"],
        "connect-src": ["'self'"] if live else ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(" ".join([name, *values]) for name, values in parts.items())


def no_figures() -> str | None:
    """Why a page of this installation has no figures, in one line; None: it has them."""
    return None if find_spec("matplotlib") else f"Figures are left out: {missing_package('matplotlib')}"


def figures(sources: Sources) -> tuple[list[Figure], list[str]]:
    """The figures for which runs and logs hold data; and, in words, those that cannot be drawn from them."""
    if (missing := no_figures()) is not None:
        return [], [missing]
    found, notes = [], []
    names = available(sources)
    for name in watched(names, "drawing", "figures", len(names)):
        title = TITLES[name]
        try:
            svg = without_inline_style(render_svg(name, sources))
            text = caption(name, sources).removeprefix(f"{title}. ")
            found.append(Figure(name=name, title=title, caption=text, svg=svg))
        except StapoError as error:  # runs of different problems have no differences: the others still stand
            notes.append(f"{title}: {error}")
    return found, notes


def without_inline_style(svg: str) -> str:
    """The same drawing with attributes instead of CSS, which the page's policy forbids inside it; without comments.

    >>> without_inline_style('<!-- text --><path style="fill: none; stroke: red"/>')
    '<path fill="none" stroke="red"/>'
    """

    def attributes(match: re.Match[str]) -> str:
        pairs = (part.split(":", 1) for part in match[1].split(";") if ":" in part)
        return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in pairs)

    return re.sub(
        r'style="([^"]*)"', attributes, re.sub(r"<style\b.*?</style>|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    )


def _has_metrics(log: Path) -> bool:
    return any(file for pattern in ("metrics.jsonl", "*/metrics.jsonl") for file in log.glob(pattern))


def _with_dumps(logs: Sequence[Path]) -> list[Path]:
    """The folders, and where one is a folder of training runs, these."""
    return [folder for log in logs for folder in ((log,) if any(dumps([log])) else (log, *sorted(log.glob("*/"))))]


def _title(runs: Sequence[dict[str, Any]]) -> str:
    names = [run["name"] for run in runs]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more runs" if len(names) > 3 else "")


@cache
def _asset(name: str) -> str:
    """A script or a style sheet, as it stands between its tags: a browser hashes it after turning CR LF into LF."""
    text = (_FOLDER / name).read_text(encoding="utf-8")
    if re.search(r"</(script|style)|<!--|\r", text, re.IGNORECASE):
        raise AssertionError(f"{name}: would end its own element, or change its hash")
    return text
