"""What changes the distribution that samples come from, prompt and decoding: known to differ, or not known of both."""

from stapo_bench.analysis.why.parts import Cause
from stapo_bench.engines import same_distribution, sampling_in_words
from stapo_bench.runs import LoadedRun


def differing_settings(a: LoadedRun, b: LoadedRun, task: str, *, same_texts: bool) -> dict[Cause, str]:
    """What is known to differ, with words for it.

    ``same_texts``: both were asked the same problems, so that other prompts are other ways of asking.
    """
    found: dict[Cause, str] = {}
    of_a, of_b = (run.manifest.identity.tasks[task] for run in (a, b))
    if _differ(of_a.prompt_format, of_b.prompt_format):
        found["prompt"] = f"format {of_a.prompt_format} in {a.name}, {of_b.prompt_format} in {b.name}"
    elif _differ(of_a.prompts, of_b.prompts) and same_texts:
        found["prompt"] = "the prompts' texts differ"
    if _decode_differently(a, b):
        found["decoding"] = _decoding(a, b)
    return found


def unknown_settings(a: LoadedRun, b: LoadedRun, task: str) -> dict[Cause, str]:
    """What one run or both do not state, and may therefore differ, with words for it."""
    found: dict[Cause, str] = {}
    of_a, of_b = (run.manifest.identity.tasks[task] for run in (a, b))
    lacking = [run.name for run, asked in ((a, of_a), (b, of_b)) if asked.prompts is None]
    if lacking and not _differ(of_a.prompt_format, of_b.prompt_format):
        found["prompt"] = f"the prompts of {' and '.join(lacking)} are not known"
    stated = [run.manifest.identity.sampling for run in (a, b)]
    greedy = all(sampling.temperature == 0 for sampling in stated)  # whatever top-p
    known = all(sampling.temperature is not None and sampling.top_p is not None for sampling in stated)
    if not (known or greedy or _decode_differently(a, b)):
        found["decoding"] = _decoding(a, b)
    return found


def _decode_differently(a: LoadedRun, b: LoadedRun) -> bool:
    """Whether how they decode is known to differ."""
    one, other = (run.manifest.identity.sampling for run in (a, b))
    if _differ(one.temperature, other.temperature):
        return True
    if None in (one.temperature, other.temperature, one.top_p, other.top_p):  # then what is off may be unknown
        return any(_differ(getattr(one, name), getattr(other, name)) for name in ("top_p", "top_k", "min_p"))
    return not same_distribution(one, other)


def _decoding(a: LoadedRun, b: LoadedRun) -> str:
    """How both decode, in words."""
    params = [(run.name, run.manifest.identity.sampling) for run in (a, b)]
    return ", ".join(f"{sampling_in_words(p)} in {name}" for name, p in params)


def _differ(one: object, other: object) -> bool:
    """Whether two settings are known to differ; None: not known."""
    return one is not None and other is not None and one != other
