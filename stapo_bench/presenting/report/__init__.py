"""One self-contained HTML page of runs: table, verdicts, figures, every sample, and the tokens of dumped mini-batches.

    from stapo_bench.presenting.report.page import Contents, write_report

    size = write_report(Contents(runs=[Path("results/base"), Path("results/stapo")]), Path("report.html"))

The page needs no network and runs no code but its own: model output is data, see ``page.py``.
"""
