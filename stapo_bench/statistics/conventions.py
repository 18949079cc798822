"""Project-wide conventions: the level of a test, the margin of a tie, the power of a plan."""

LEVEL = 0.05
"""A difference is shown where its p-value is below this."""

MARGIN = 0.02
"""Two percentage points: a difference shown to be smaller counts as a tie."""

POWER = 0.80
"""The probability with which a plan finds a true difference."""
