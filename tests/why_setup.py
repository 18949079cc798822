"""Small runs of one model whose difference is known; imported by the tests of ``why``."""

CHECKPOINT = {"checkpoint": {"digest": "one"}}
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 64}


def rows(*right, num_samples=4):
    return [[1] * count + [0] * (num_samples - count) for count in right]


def same_model(make_run, name, found, **how):
    """A run of the model that all of them share."""
    return make_run(name, found, **{**how, "identity": {**CHECKPOINT, **how.get("identity", {})}})


def values(gap):
    """The parts that contribute, in points."""
    return {part.cause: round(100 * part.value, 6) for part in gap.parts if part.value}
