"""Random outcomes of problems with known success rates."""

import numpy as np


def logistic(x):
    return 1 / (1 + np.exp(-x))


def sample_matrix(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(float)
