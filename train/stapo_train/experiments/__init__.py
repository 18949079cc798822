"""Experiments over several seeds: train, evaluate, compare, and a page for each question."""
