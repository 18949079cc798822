"""Project-wide conventions: the level of a test, the margin of a tie, the power of a plan, the rate of false alarms."""

LEVEL = 0.05
"""A difference is shown where its p-value is below this."""

MARGIN = 0.02
"""Two percentage points: a difference shown to be smaller counts as a tie."""

POWER = 0.80
"""The probability with which a plan finds a true difference."""

ALARM = 0.001
"""A check of a run speaks up by chance in at most this share of faultless runs."""
