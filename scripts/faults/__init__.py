"""Faults that ``scripts/faults.py`` injects into the real commands, one module per kind."""
