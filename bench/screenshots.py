r"""The report as a reader sees it, in ten pictures (headless Chromium, by Selenium).

    scripts/reproduce_table.sh
    stapo-train train/configs/tiny/stapo.yaml iterations=10 out=runs/look --dump-rollouts 10
    stapo-train audit runs/look/dumps/iteration-000010 --tokens
    for run in runs/tiny/eval/{base,grpo,stapo}-*; do stapo-bench grade "$run" --grader strict; done
    stapo-bench report runs/tiny/eval/{base,grpo,stapo}-training runs/tiny/eval/{base,grpo,stapo}-justrl \
        --train runs/tiny --train runs/look -o report.html
    .venv-report/bin/python -m bench.screenshots report.html docs/screenshots

``scripts/integration.sh report`` makes the environment; docs/how-to/report.md and the README show the pictures.
"""

import argparse
import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import open_browser

PATIENCE = 30.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A place in the report, and when it is all there."""

    hash: str
    shown: str  # a script that returns true
    scheme: str = "light"
    width: int = 1360
    height: int = 860


_FIGURES = "return document.querySelector('#figures svg') !== null"
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

PICTURES = {
    "overview": Picture(hash="#overview", shown="return true", height=1080),
    "overview-dark": Picture(hash="#overview", shown="return true", scheme="dark", height=1080),
    "verdict": Picture(hash="#overview/1", shown="return document.querySelector('.verdict').open"),
    "figures": Picture(hash="#figures", shown=_FIGURES),
    "figures-dark": Picture(hash="#figures", shown=_FIGURES, scheme="dark"),
    "sample": Picture(hash="#tiny_math500/3/0", shown=_SAMPLE.format(1, _ANSWER)),
    "two-runs": Picture(hash=f"#tiny_aime24/18/0{_BOTH}", shown=_FLIPPED + _ANSWER),
    "search-dark": Picture(hash="#tiny_aime24/7/2@stapo-training", shown=_SEARCH, scheme="dark"),
    "tokens": Picture(hash="#tokens", shown=_TOKENS),
    "phone": Picture(hash="#overview", shown="return true", width=390, height=844),
}


def take(driver: Any, page: str, picture: Picture) -> bytes:
    """The picture as PNG."""
    from selenium.webdriver.support.ui import WebDriverWait

    features = [{"name": "prefers-color-scheme", "value": picture.scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    size = {"width": picture.width, "height": picture.height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page)
    driver.execute_script("sessionStorage.clear()")  # the filters of the picture before
    driver.get("about:blank")
    driver.get(page + picture.hash)
    WebDriverWait(driver, PATIENCE).until(lambda seen: seen.execute_script(picture.shown), picture.hash)
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="a report of the tiny runs")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    driver = open_browser()
    try:
        for name, picture in PICTURES.items():
            image = take(driver, options.report.resolve().as_uri(), picture)
            (options.folder / f"{name}.png").write_bytes(image)
            print(f"{options.folder / name}.png: {len(image) / 1000:.0f} kB")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
