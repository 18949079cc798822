"""The published table at three scales: which commands, in which order, on how many lanes."""
