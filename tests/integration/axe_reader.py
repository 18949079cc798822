"""What axe-core, the checker of accessibility, says of the page that a browser shows.

Its script comes out of the package axe-playwright-python (scripts/layers.sh); Playwright itself is not needed.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_PACKAGE = find_spec("axe_playwright_python")
if _PACKAGE is None:
    pytest.skip("axe-core is not installed: scripts/integration.sh runs this", allow_module_level=True)
SCRIPT = Path(*_PACKAGE.submodule_search_locations, "axe.min.js").read_text(encoding="utf-8")

GRAVE = ("serious", "critical")


def show_in(driver: Any, scheme: str) -> None:
    """Let pages be "light" or "dark", as a system's setting would."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def grave_findings(driver: Any) -> list[str]:
    """Each serious or critical finding on the page as it is now: its rule, what it is about, where."""
    driver.execute_script(SCRIPT)
    found = driver.execute_async_script("const done = arguments[0]; axe.run(document).then(done)")
    assert len(found["passes"]) > 5, "axe looked at next to nothing"
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {node['target']} {node['html'][:100]}"
        for one in found["violations"]
        if one["impact"] in GRAVE
        for node in one["nodes"][:3]
    ]
