r"""The report and the site as a reader sees them (headless Chromium, by Selenium).

    scripts/reproduce_table.sh
    stapo-train train/configs/tiny/stapo.yaml iterations=10 out=runs/look --dump-rollouts 10
    stapo-train audit runs/look/dumps/iteration-000010 --tokens
    for run in runs/tiny/eval/{base,grpo,stapo}-*; do stapo-bench grade "$run" --grader strict; done
    stapo-bench report runs/tiny/eval/{base,grpo,stapo}-training runs/tiny/eval/{base,grpo,stapo}-justrl \
        --train runs/tiny --train runs/look -o report.html
    .venv-report/bin/python -m bench.screenshots report.html docs/screenshots

    scripts/site.sh
    .venv-report/bin/python -m bench.screenshots site build/pictures

``scripts/integration.sh report`` makes the environment; docs/how-to/report.md and the README show those of the report.
"""

import argparse
import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import open_browser

PATIENCE = 30.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A place in the report or on the site, and when it is all there."""

    place: str  # what follows the page's address, or the site's
    shown: str  # a script that returns true
    scheme: str = "light"
    width: int = 1360
    height: int = 860


_FIGURES = "return document.querySelector('#figures svg') !== null"
_PAIR = """
const pair = document.querySelector(".pair[data-runs='1 2']"), verdict = pair.querySelector("details");
if (!verdict.open) { location.hash = "#overview/" + verdict.id.split("-")[1]; return false; }
document.getElementById("pairs-title").scrollIntoView();
return !pair.hidden;"""
_SAMPLE = "return document.querySelectorAll('#detail .columns > section').length === {} && {}"
_ANSWER = "document.querySelector('#detail .text math') !== null"
_BOTH = "@base-training,stapo-training"
_FLIPPED = """
const box = document.getElementById("only-flipped");
if (!box.checked && !box.disabled) box.click();
return box.checked && document.querySelectorAll("#detail .columns > section").length === 2 && """
_SEARCH = """
const search = document.getElementById("search");
if (!search.value) { search.value = "mod 4"; search.dispatchEvent(new Event("input")); }
const status = document.getElementById("status").textContent;
if (status.includes("searched)") || status === "8,984 of 8,984 samples") return false;
if (!document.querySelector("#detail .text mark")) moveRow(1);
return document.querySelector("#detail .text mark") !== null;"""
_TOKENS = """
const silenced = document.querySelectorAll("#token-text .silenced");
if (silenced.length && !silenced[0].matches(":focus")) silenced[0].focus();
return silenced.length > 0 && document.getElementById("token-facts").textContent.includes("silenced");"""

REPORT = {
    "overview": Picture(place="#overview", shown="return true", height=1080),
    "overview-dark": Picture(place="#overview", shown="return true", scheme="dark", height=1080),
    "verdict": Picture(place="#overview/1", shown="return document.querySelector('.verdict').open"),
    "pairs": Picture(place="#overview", shown=_PAIR, height=620),
    "figures": Picture(place="#figures", shown=_FIGURES),
    "figures-dark": Picture(place="#figures", shown=_FIGURES, scheme="dark"),
    "sample": Picture(place="#tiny_math500/3/0", shown=_SAMPLE.format(1, _ANSWER)),
    "two-runs": Picture(place=f"#tiny_aime24/18/0{_BOTH}", shown=_FLIPPED + _ANSWER),
    "search-dark": Picture(place="#tiny_aime24/7/2@stapo-training", shown=_SEARCH, scheme="dark"),
    "tokens": Picture(place="#tokens", shown=_TOKENS),
    "phone": Picture(place="#overview", shown="return true", width=390, height=844),
}

_PAGES = {
    "start": "index.html",
    "tutorial": "tutorials/two-checkpoints.html",
    "experiments": "results/experiments/index.html#knights",
    "python": "reference/python.html#stapo_bench.compare",
}
_PALETTE = "return document.body.dataset.mdColorScheme === '{}'"
SITE = {
    f"site-{name}-{scheme}": Picture(place=place, shown=_PALETTE.format(palette), scheme=scheme, height=1080)
    for name, place in _PAGES.items()
    for scheme, palette in (("light", "default"), ("dark", "slate"))
}


def take(driver: Any, page: str, picture: Picture) -> bytes:
    """The picture as PNG."""
    from selenium.webdriver.support.ui import WebDriverWait

    features = [{"name": "prefers-color-scheme", "value": picture.scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    size = {"width": picture.width, "height": picture.height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page)
    driver.execute_script("sessionStorage.clear(); localStorage.clear()")  # what the picture before chose
    driver.get("about:blank")
    driver.get(page + picture.place)
    WebDriverWait(driver, PATIENCE).until(lambda seen: seen.execute_script(picture.shown), picture.place)
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])


def small(image: bytes) -> bytes:
    """A PNG of the 256 colours that serve it best: a third of the size, no channel off by more than 18 of 255."""
    from PIL import Image

    drawn = Image.open(io.BytesIO(image)).convert("RGB")
    few = drawn.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(out := io.BytesIO(), "PNG", optimize=True)
    return out.getvalue()


def main() -> None:
    """Take them all, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="a report of the tiny runs, or the folder of the built site")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("names", nargs="*", help="the pictures to take (default: all)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    page: Path = options.page.resolve()
    address, pictures = (f"{page.as_uri()}/", SITE) if page.is_dir() else (page.as_uri(), REPORT)
    driver = open_browser()
    try:
        for name in options.names or pictures:
            image = small(take(driver, address, pictures[name]))
            (options.folder / f"{name}.png").write_bytes(image)
            print(f"{options.folder / name}.png: {len(image) / 1000:.0f} kB")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
