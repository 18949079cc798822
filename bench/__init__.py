"""Measurements of speed, memory and agreement: ``python -m bench.NAME --json OUT``; results are in results/bench."""
