"""docs/objectives.md: what each objective does to a token, where it comes from and what it was compared with.

Made by ``python -m bench.objectives page``; a test holds the page to the code and to results/objectives.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from stapo_train.objective import Objective, TokenStats, policy_loss, select
from stapo_train.objectives import BUILT_IN, REGISTRY, for_run

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "results" / "objectives" / "differences.csv"
PAGE = ROOT / "docs" / "objectives.md"

ROLLOUTS, LENGTH = 16, 25
RARE, LIKELY, SURE, UNSURE = 0.001, 0.5, 0.1, 2.0  # probabilities; nats

HEAD = """# Objectives: what each does to a token, and what it was compared with

A token's weight is what multiplies A grad ln pi, the plain policy gradient, in the gradient of a mini-batch of equally
long rollouts: 1 is DAPO's on the first step. 0 silences, above 1 amplifies, a minus sign turns the direction round.
Rare is pi = 0.001, likely 0.5; sure is an entropy of 0.1 nats, unsure 2. The last two columns are rare, sure tokens
that the iteration's earlier steps have made four times as likely (A > 0) or a quarter (A < 0). Lp-Reg's min-p proxy has
four times the probability where the policy is unsure, and leaves the token out where it is sure; STARE's gate is open;
LUSPO's 25 is the rollouts' length. Objectives that differ in their advantages alone have JustRL's row but for the clip.

Made by `python -m bench.objectives`.
"""

COMPARED = """
Losses and gradients, in float64, on three random batches of twelve rollouts with ratios from a third to three. Both
sides have our default constants; where one differs, or something was handed in, brackets say so. The slow reference has
constants with which an objective does something on 64 token ids (`check_with`), by the loss alone; "at the defaults" it
has the default ones, on the random batches.
"""

TRL, VERL, AUTHORS = "TRL 1.16", "verl 0.9.1", "the authors' code, "
OTHERWISE: Mapping[tuple[str, str], tuple[Mapping[str, Any], str]] = {
    ("20-entropy", TRL): ({"denominator": "all", "dual_clip": None}, ""),
    ("20-entropy", f"{AUTHORS}Shenzhi-Wang/Beyond-the-80-20-Rule-RLVR"): ({}, "one micro-batch"),
    ("clip-cov", VERL): ({"share": 1.0, "low": 0.0, "high": 1e9}, "which tokens are drawn is random, so all are"),
    ("lp-reg", f"{AUTHORS}CarlanLark/Lp-Reg-dev"): ({"share": 0.2}, "the proxy handed in to both"),
    ("stare", f"{AUTHORS}hp-luo/STARE"): (
        {"weight_negative": 0.9},
        "variant C2, the gate handed in open; their weights, on the surrogate as we write it",
    ),
    ("taco", f"{AUTHORS}xiuyilou/TACO"): ({}, "their weights, on the surrogate as we write it"),
    ("aspo", f"{AUTHORS}wizard-III/Archer2.0"): ({}, "which tokens have high entropy handed in"),
}
"""By objective and oracle: in which settings they were compared, if not in the defaults, and what was handed in."""

LEFT_OUT = """
## Left out, and what is missing

* RSI (arXiv:2606.31575): tokens whose index lies in an interval are kept. Its abstract says no more, and the authors
  have published no code. Missing are the interval's lower and its upper end, on which everything hangs, what the index
  is where the entropy is near 0, whether pi and H are those of the policy that sampled, and what the loss is divided
  by. Code by others reads the index as -ln pi / (H + a small number), with ends that are their own guesses.
* STAPO as a baseline in TACO's repository is neither version of the paper's: a token of a good rollout with pi < 0.002
  is left out where its entropy is below the 10 % quantile of all good rollouts' tokens, of one micro-batch alone.
* ReMax needs a greedy rollout per prompt; verl's optimal-token baselines need sums of squared probabilities per token
  beside the advantages; GDPO needs several rewards. The rollout stage gives none of these.
* verl's GAE, its default estimator, needs a value model, and so does whatever is built on it.
* verl's REINFORCE loss for `bypass_mode` weighs A ln pi by the policy over the sampling engine's log-probs, of the same
  step. Here the engine's mismatch is a layer of its own (`update.correction`), and ratios are to the trainer's.
* TRL's `bnpo` is DAPO's loss over the tokens of one rank's micro-batch: it depends on how a mini-batch is split.
* GSPO-token (TRL's `sequence_token`, verl's `gspo` written token by token) is `gspo` where all tokens of a rollout have
  one advantage, as here: the same value, clip and gradient (arXiv:2507.18071, Sec. 4.3).
* TRL's A*-PO regresses on values of the base model, which are sampled before training.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """An objective beside one oracle."""

    objective: str
    oracle: str
    difference: float  # relative, the largest seen


def read_rows() -> list[Row]:
    """What was measured so far."""
    if not ROWS.is_file():
        return []
    with ROWS.open(encoding="utf-8", newline="") as file:
        return [
            Row(objective=r["objective"], oracle=r["oracle"], difference=float(r["difference"]))
            for r in csv.DictReader(file)
        ]


PROBES = [(a, p, h, 1.0) for a in (1, -1) for p in (RARE, LIKELY) for h in (SURE, UNSURE)]
PROBES += [(1, RARE, SURE, 4.0), (-1, RARE, SURE, 0.25)]


def weights(objective: Objective) -> list[float]:
    """The weight of each probe, one to a rollout, among tokens of ratio 1 that are neither rare nor special."""
    n = ROLLOUTS * LENGTH
    generator = torch.Generator().manual_seed(0)
    probs = torch.empty(n, dtype=torch.float64).uniform_(0.3, 0.9, generator=generator)
    entropy = torch.empty(n, dtype=torch.float64).uniform_(0.05, 1.5, generator=generator)
    sequence = torch.arange(n) // LENGTH
    advantages = torch.where(sequence % 2 == 0, 1.0, -1.0).double()
    log_rho = torch.zeros(n, dtype=torch.float64)
    rows = {1: iter(range(0, ROLLOUTS, 2)), -1: iter(range(1, ROLLOUTS, 2))}
    places = []
    for sign, prob, nats, rho in PROBES:
        place = next(rows[sign]) * LENGTH
        probs[place], entropy[place], log_rho[place] = prob, nats, torch.tensor(rho).log()
        places.append(place)
    now = probs.log().requires_grad_()
    rare = probs < 0.01
    stats = TokenStats(
        log_probs=now,
        old_log_probs=probs.log() - log_rho,
        entropy=entropy,
        advantages=advantages,
        sequence=sequence,
        key=torch.arange(n),
        proxy_log_probs=torch.where(
            rare & (entropy > 1), (4 * probs).log(), torch.where(rare, -torch.inf, probs.log())
        ),
        batch_entropy=torch.full((n,), 0.2, dtype=torch.float64),
    )
    total = torch.zeros(n, dtype=torch.float64)
    for phase in range(objective.num_phases):
        selection = select(replace(stats, log_probs=now.detach()), objective, phase=phase)
        numerator = policy_loss(stats, selection, objective).numerator.sum()
        (slope,) = torch.autograd.grad(numerator, now)
        total += -slope * n / selection.denominator
    return [float(total[place] / advantages[place]) for place in places]


def number(value: float) -> str:
    """Two digits, and no minus before a zero."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def render(rows: list[Row]) -> str:
    """The page."""
    tokens = []
    for sign, prob, nats, _ in PROBES[:8]:
        words = (
            "A > 0" if sign > 0 else "A < 0",
            "rare" if prob == RARE else "likely",
            "sure" if nats == SURE else "unsure",
        )
        tokens.append(", ".join(words))
    lines = [HEAD, "## Weights", "", "| Objective | " + " | ".join([*tokens, "A > 0, risen", "A < 0, fallen"]) + " |"]
    lines.append("|" + "---|" * (len(PROBES) + 1))
    for name in BUILT_IN:
        objective = for_run({"name": name}, seed=3, max_new_tokens=LENGTH)
        lines.append(f"| `{name}` | " + " | ".join(map(number, weights(objective))) + " |")
    lines += ["", "## Sources and comparisons", COMPARED]
    lines += [
        "| Objective | | Source | Compared with: largest relative difference of loss or gradient |",
        "|---|---|---|---|",
    ]
    for name in BUILT_IN:
        found = [f"{row.oracle}{_otherwise(row)}: {row.difference:.1e}" for row in rows if row.objective == name]
        lines.append(f"| `{name}` | {REGISTRY[name].label} | {REGISTRY[name].source} | {'; '.join(found)} |")
    return "\n".join(lines) + "\n" + LEFT_OUT


def _otherwise(row: Row) -> str:
    """In brackets: in which settings the two were compared, and what was handed in."""
    settings, words = OTHERWISE.get((row.objective, row.oracle), ({}, ""))
    stated = ", ".join(f"{name} {value}" for name, value in settings.items())
    return f" ({'; '.join(filter(None, (stated, words)))})" if stated or words else ""


def write_page() -> None:
    """Write docs/objectives.md."""
    PAGE.write_text(render(read_rows()), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
