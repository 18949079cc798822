"""Runs as the files of other tools: logs of lm-eval and inspect_ai, records of Every Eval Ever, the hub's results.

    from stapo_bench.presenting.exporting import export_as

    export_as("inspect", [Path("results/base-justrl")], Path("logs"))

What a format cannot say is left out, and what is not known is not filled in.
"""

from stapo_bench.presenting.exporting.formats import FORMATS, Written, export_as
from stapo_bench.presenting.exporting.live import LIVE, open_logs
