"""Copies among a run's samples: completions that repeat another of their problem far too often for chance.

    mark_copies(read_graded_samples(run_dir, grades), sampling)

A server that ignores seeds, a cache or a proxy may answer 32 requests with one text. Where the samples of a run give
evidence of that (``stapo_bench.statistics.copies``; by chance in at most one of a thousand runs), an equal text counts
as a sample once per problem, and its copies as none: neither right nor wrong, and part of no k. On problems that show
no sign of copies, and in runs without evidence, nothing is marked.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from stapo_bench.records import StatedSampling
from stapo_bench.runs.graded_samples import START_TOKENS, GradedSample, GradedSamples
from stapo_bench.statistics import ALARM, copy_evidence, is_copied, most_log_probability, problem_evidence


def mark_copies(samples: Mapping[str, GradedSamples], sampling: StatedSampling, *, as_drawn: bool = False) -> None:
    """Mark the copies of a run, in place; ``samples``: by task, sampled under these settings, as for ``texts_of``."""
    if not sampling.temperature:
        return  # one text for every seed is what was asked for, or may have been where it is not known
    found = [(of_task, places) for of_task in samples.values() for places in of_task.repeating()]
    groups = [texts_of([of_task[place] for place in places], sampling, as_drawn=as_drawn) for of_task, places in found]
    each = [problem_evidence(group) for group in groups]
    num_problems = sum(of_task.num_problems for of_task in samples.values())
    evidence, share = copy_evidence(each, num_problems - len(each))
    if evidence < -math.log(ALARM):
        return
    for (of_task, places), group, own in zip(found, groups, each, strict=True):
        if is_copied(own, share):
            seen: set[bytes] = set()
            for place, (text, log_probability) in zip(places, group, strict=True):
                if text in seen:
                    of_task.mark_copy(place)
                elif log_probability < 0.0:
                    seen.add(text)


def evidence_of_shared_starts(groups: Iterable[Sequence[GradedSample]], temperature: float) -> float:
    """log E that a run's samples, by problem, have their beginnings from each other and go on alone.

    So a cache of prefixes may hand out what one sample began. Copies of whole texts are left out. The samples of such
    a run are neither one nor independent: this is said, and not corrected.
    """
    most = most_log_probability(START_TOKENS, temperature)
    each = []
    for group in groups:
        wholes = {sample.text_digest: sample.start_digest for sample in group}  # equal texts begin alike
        each.append(problem_evidence([(start, most) for start in wholes.values() if start is not None]))
    return copy_evidence([one for one in each if one > -math.inf], sum(one == -math.inf for one in each))[0]


def texts_of(
    samples: Iterable[GradedSample], sampling: StatedSampling, *, as_drawn: bool = False
) -> Sequence[tuple[bytes, float]]:
    """The samples' texts, each with the most that its log-probability may be; 0 where the temperature is not known.

    ``as_drawn``: their log-probs are those with which they were drawn; False: they may be those before the top-p cut.
    """
    temperature, top_p = sampling.temperature or 0.0, 1.0 if as_drawn else sampling.top_p
    told = [(sample, None if top_p is None else sample.sum_log_prob) for sample in samples]
    return [
        (sample.text_digest, most_log_probability(sample.text_tokens, temperature, log_prob, top_p or 1.0))
        for sample, log_prob in told
    ]
