"""Faults that the campaign (``python -m tests.faults``) injects into the real commands, one module per kind."""
