"""Runs and printed tables to one table: rows, grouped into blocks, rendered as Markdown, CSV, JSON or LaTeX."""
