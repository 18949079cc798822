"""The mechanism's page: predictions judged, maps, single tokens and what noise alone does, from the runs' records."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from stapo_bench.runs import write_result
from stapo_bench.statistics import Difference, over_seeds
from stapo_train.experiments.archive import TRAININGS
from stapo_train.experiments.mechanism.figure import draw, draw_maps
from stapo_train.experiments.mechanism.identities import adam_spike, effect_of_step, token_effect
from stapo_train.experiments.mechanism.maps import MAP_CASES, PLAN
from stapo_train.experiments.mechanism.policy import Setting, make_world
from stapo_train.experiments.mechanism.study import CASES, SETTINGS, Case, Record, Runs, judge, of_seeds
from stapo_train.objectives import methods

QUESTION = "What makes entropy grow in training with a clipped objective, and when does silencing (S2T) hold it?"
GROWS = {
    "T1": "rollouts are drawn flatter than the policy that is trained and successes are longer",
    "M1": "the engine's log-probs are off and successes are longer",
    "U1": "rare tokens help",
    "C4": "the upper clip is wide",
    "A2": "most rollouts succeed, under Adam",
}
"""Cases in which JustRL's entropy, or tail, grows."""
LOWERED = ("S1", "M2", "U2", "C5", "A3")
"""Cases in which S2T takes from that."""
SHOWN = ("entropy", "tail", "useful", "harmful")
SHARES = ("masked", "clipped_high", "clipped_low")
Judged = tuple[Case, Difference, str]
"""A prediction, its number and what became of it."""
WIDE = 151_936
"""Vocabulary of the models of the paper."""
REWRITTEN = (
    "written before the runs; the repository's history was written anew since, with both in one commit, so that the "
    "order cannot be looked up here."
)
STEP = 0.01
"""eta w of the steps after which entropy is measured."""


def write_page(runs: Runs, about: Mapping[str, float | str], folder: Path) -> None:
    """page.md, maps.svg, phases.svg and summary.json; ``about``: cpu_s, and the versions that made the runs."""
    judged: list[Judged] = [(case, *judge(case, runs)) for case in (*CASES, *MAP_CASES)]
    asked = [seed for seeds, _ in PLAN for seed in seeds]
    finished = [seed for seeds, names in PLAN for seed in seeds if all((name, seed) in runs for name in names)]
    not_run = [name for _, names in PLAN for name in names if not of_seeds(runs, [name])]
    outcomes = [outcome for _, _, outcome in judged]
    proper = [outcome for case, _, outcome in judged if not case.seen]
    answers = [
        _verdict(judged),
        f"Of {len(judged)} predictions {sum('as predicted' in o for o in outcomes)} came out as predicted "
        f"(of the {len(proper)} that nothing had shown before, {sum('as predicted' in o for o in proper)}), "
        f"{sum('refuted' in o for o in outcomes)} are refuted and {outcomes.count('not told from 0')} not told from 0.",
    ]
    answers += [
        f"{case.code}, {outcome.strip('*')}: {case.says} ({_change(found)})." for case, found, outcome in judged
    ]
    lines = ["# mechanism", "", f"**{QUESTION}**", ""]
    if len(finished) < len(asked):
        lines += [f"**Partial: {len(finished)} of {len(asked)} seeds are finished.**", ""]
    lines += [f"- {answer}" for answer in answers[:2]]
    lines += ["", "A policy without a network ([derivation](../../../docs/mechanism.md)): "]
    lines[-1] += "contexts with a few likely tokens and a Zipf tail, trained by the objectives of this package; what "
    lines[-1] += f"each token does is known. [The predictions](predictions.md) were {REWRITTEN} Nothing is said of a "
    lines[-1] += "language model's parameters here. Two differences are large: S2T silences 0.03 to 5.6 % of "
    lines[-1] += "the tokens here, and about 0.01 % in the paper; steps are few and large."
    lines += ["", "![Entropy under JustRL and STAPO](maps.svg)", ""]
    lines += [
        "Left, middle: end over start of entropy, by the rollouts' temperature (the loss is at 1) and by how many "
    ]
    lines[-1] += "times as long successful rollouts are. Right: the corner where it grows, and rare tokens that help; "
    lines[-1] += "mean and range of the seeds."
    lines += [
        "",
        "## Predictions",
        "",
        *_table(judged[: len(CASES)]),
        "",
        *_maps(judged[len(CASES) :]),
        "",
        *_noise(runs),
        "",
        *_tokens(),
        "",
        *_runs(runs),
        "",
        *_how(about, finished),
    ]
    write_result(folder / "page.md", "\n".join(lines) + "\n")
    write_result(folder / "maps.svg", draw(runs))
    write_result(folder / "phases.svg", draw_maps(runs))
    summary = {"question": QUESTION, "seeds": {"asked": asked, "finished": finished}}
    told = {**summary, "not_run": not_run, "cpu_s": round(float(about["cpu_s"])), "answers": answers}
    write_result(folder / "summary.json", json.dumps(told, indent=1) + "\n")


def _verdict(judged: Sequence[Judged]) -> str:
    """The page in a sentence, of what came out as predicted."""
    held = {case.code for case, _, outcome in judged if "as predicted" in outcome}
    grows = "; ".join(words for code, words in GROWS.items() if code in held)
    lowered = sum(code in held for code in LOWERED)
    everywhere = " It lowers entropy as well where nothing makes it grow." if "S3" in held else ""
    cost = " What helps is silenced with the rest." if {"U2", "U3"} <= held else ""
    return (
        f"Entropy grows where one of these holds: {grows or 'none that was tried'}. S2T takes some or all of that "
        f"growth in {lowered} of {len(LOWERED)} such cases.{everywhere}{cost}"
    )


def _table(judged: Sequence[Judged]) -> Iterator[str]:
    yield "ln(end / start), or its difference between two runs of one seed, with 95 % intervals over seeds; U3: reward."
    yield ""
    yield "| | Prediction | number | outcome | explored before |"
    yield "|---|---|---:|---|---|"
    for case, found, outcome in judged:
        yield f"| {case.code} | {case.says} | {_change(found)} | {outcome} | {'yes' if case.seen else 'no'} |"


def _maps(judged: Sequence[Judged]) -> Iterator[str]:
    """The phase diagrams, and what was predicted of them."""
    yield "## Phase diagrams"
    yield ""
    yield "![Phase diagrams](phases.svg)"
    yield ""
    yield "End over start, mean over five seeds of their own; red: it grew; the black line parts growth from fall."
    yield ""
    yield "- L: size and number of steps where rewards are noise and contexts share parameters."
    yield "- K: the two clips there, at 16 updates per iteration. GRPO is JustRL at an upper clip of 0.2 here."
    yield "- R: rare tokens of which the spurious do nothing and the others help."
    yield "- G: the tail's mass where rewards are noise, by group size and success rate."
    yield ""
    yield "*Refuted*: the prediction was wrong; *not told from 0*: open, where a difference was predicted."
    yield ""
    yield from _table(judged)


def _change(found: Difference) -> str:
    if math.isnan(found.standard_error):
        return "–"
    ends = found.interval()
    return f"{found.value:+.3f} [{ends.low:+.3f}, {ends.high:+.3f}]"


def _noise(runs: Runs) -> Iterator[str]:
    """Entropy change by the drift's formula beside what was measured."""
    yield "## Noise alone"
    yield ""
    yield "Advantages that nothing but chance decides. By theory: the drift's formula, added up along the run."
    yield ""
    yield "| Likeliest token | change of entropy, nats | by theory |"
    yield "|---:|---:|---:|"
    for name, setting in SETTINGS.items():
        found = [run for (run,) in of_seeds(runs, [name])]
        if name.startswith("noise") and len(found) > 1:
            measured = [run[-1]["entropy"] - run[0]["entropy"] for run in found]
            theory = [sum(expected_noise(setting) * record["drift"] for record in run[:-1]) for run in found]
            columns = [_change(over_seeds([np.array(v)[:, None]], "seeds like these")) for v in (measured, theory)]
            yield f"| {(1 - setting.tail) * setting.top:.2f} | {columns[0]} | {columns[1]} |"


def expected_noise(setting: Setting) -> float:
    """eta^2 E[w^2] times the tokens of a context in an update, w = A / N: what ``drift`` is multiplied by.

    E[A^2] = (G - 1) / G where a group has both outcomes, and 0 where it has not.
    """
    tokens = setting.prompts * setting.group * setting.length
    same = setting.success**setting.group + (1 - setting.success) ** setting.group
    squared = (setting.group - 1) / setting.group * (1 - same)
    return setting.lr**2 * squared / (tokens * setting.contexts)


def _tokens() -> Iterator[str]:
    """Exact means over the sampled token, by its probability, in contexts of ``WIDE`` tokens."""
    yield "## Single tokens"
    yield ""
    yield f"{WIDE:,} tokens, exact means over the sampled token under the policy, per unit of w. Norm: of the gradient"
    yield "with respect to the logits. abs. dH: change of the context's entropy to first order; measured: of the same"
    yield f"tokens, all of them, after a step of {STEP}. A rare token has the largest gradient and, as it takes from"
    yield "the likely one, the larger effect."
    yield ""
    yield "| likeliest token | sampled token | share of samples | norm | abs. dH | measured | all it adds to dH |"
    yield "|---:|---|---:|---:|---:|---:|---:|"
    for top in (0.8, 0.97):
        setting = Setting(vocabulary=WIDE, contexts=1, top=top)
        log_pi = make_world(setting, torch.Generator().manual_seed(1)).start[0].log_softmax(-1)
        pi, effect = log_pi.exp(), token_effect(log_pi)
        norm = (1 - 2 * pi + (pi**2).sum()).sqrt()
        everything = float((pi * effect.abs()).sum())
        after = effect_of_step(log_pi, STEP)
        for name, mask in {"likely (pi at least 0.002)": pi >= 0.002, "rare (below)": pi < 0.002}.items():
            share = float(pi[mask].sum())
            means = [float((pi * column)[mask].sum()) / share for column in (norm, effect.abs())]
            measured = float((pi * after.abs())[mask].sum()) / share
            part = 100 * share * means[1] / everything
            cells = f"{100 * share:.2f} % | {means[0]:.3f} | {means[1]:.5f} | {measured:.5f} | {part:.2f} %"
            yield f"| {(1 - setting.tail) * top:.2f} | {name} | {cells} |"
    yield ""
    yield f"One gradient after a long silence moves a parameter under Adam by {adam_spike():.2f} of its rate, whatever"
    yield "the gradient's size."


def _runs(runs: Runs) -> Iterator[str]:
    yield "## Runs"
    yield ""
    yield "End over start, mean of the seeds; shares of the tokens in percent, mean of the run."
    yield ""
    yield "| Run | seeds | entropy | tail mass | useful | harmful | silenced | clipped above | clipped below |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for name in SETTINGS:
        found = [run for (run,) in of_seeds(runs, [name])]
        if found:
            ratios = [float(np.mean([_ratio(run, key) for run in found])) for key in SHOWN]
            shares = [100 * float(np.mean([[step[key] for step in run[1:]] for run in found])) for key in SHARES]
            cells = ["–" if math.isnan(r) else f"{r:.2f}" for r in ratios] + [f"{share:.2f}" for share in shares]
            yield f"| {_label(name)} | {len(found)} | {' | '.join(cells)} |"


def _ratio(run: Sequence[Record], key: str) -> float:
    """End over start; NaN where there was nothing at the start."""
    return run[-1][key] / run[0][key] if run[0][key] else math.nan


def _label(name: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{methods()[first][0]} {rest}" if first in methods() else name


def _how(about: Mapping[str, float | str], finished: Sequence[int]) -> Iterator[str]:
    yield "## How it was made"
    yield ""
    yield "- Command: `python -m stapo_train.experiments.mechanism`; settings: [predictions.md](predictions.md); every"
    yield f"  run's numbers by iteration: `{TRAININGS}`."
    yield f"- Cost: {float(about['cpu_s']):,.0f} CPU-seconds. Seeds: {', '.join(map(str, finished)) or 'none'}."
    yield f"- Versions: {about['versions']}."
    yield "- Not varied here: the number of contexts, several passes over a mini-batch. Style is drawn in"
    yield "  contexts that all prompts share; a rollout's tokens do not depend on those before."
