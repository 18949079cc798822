"""Matrices of outcomes; imported by the tests of comparisons."""


def outcome_rows(num_right, num_samples=4):
    """Problems with so many right samples each."""
    return [[1] * c + [0] * (num_samples - c) for c in num_right]
