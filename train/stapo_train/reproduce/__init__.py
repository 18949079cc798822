"""Reproduces the published table at three scales: which commands, in which order, how many in parallel."""
