"""The page for a reviewer: each claim of the paper, what its own tables can show, and what small scale says of it."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.reanalysis.paper import METHOD, TABLE, verdict
from stapo_bench.analysis import load_published, table_leads
from stapo_bench.errors import StapoError
from stapo_bench.presenting import points
from stapo_bench.statistics import ERROR_NAMES
from stapo_bench.tasks import read_foreign_object
from stapo_train.experiments.notices import of_an_earlier_day, two_steps

EXPERIMENTS = Path(__file__).resolve().parents[2] / "results" / "experiments"
SOURCES = (
    "main", "stability", "controls", "sensitivity", "spurious", "mechanism", "knights", "low-probability", "regime",
)  # fmt: skip


def page(experiments: Path = EXPERIMENTS) -> str:
    """The page as Markdown, from the printed cells and the answers that the experiments' summaries hold."""
    answers = {name: read_foreign_object(experiments / name / "summary.json")["answers"] for name in SOURCES}

    notes = {name: _notes(experiments / name) for name in SOURCES}

    def said(name: str, *patterns: str) -> str:
        """The answers of an experiment that begin with these patterns, in its own words."""
        found = [next((a for a in answers[name] if re.match(each, a)), None) for each in patterns]
        if None in found:
            missing = patterns[found.index(None)]
            place = experiments / name / "summary.json"
            raise StapoError(f"{place}: expected an answer that begins '{missing}', got none; make its page again")
        return f"{' '.join(map(str, found))} ([{name}](../experiments/{name}/page.md){notes[name]})"

    leads = table_leads(load_published(TABLE), METHOD)
    averages = [lead for lead in leads if lead.task == "average"]
    rows = [
        (
            f"{METHOD} is better than GRPO, 20-Entropy and JustRL.",
            verdict([lead for lead in leads if lead.task != "average"], averages),
            said("main", "T=1.0, top-p 1.0: STAPO and JustRL", "T=0.7, top-p 0.9: STAPO and JustRL"),
        ),
        (
            "GRPO's entropy collapses, JustRL's grows late, STAPO's stays.",
            "Nothing: they hold no entropy, and the curves are of one training each.",
            said("stability", "Entropy collapses", "It explodes")
            + " "
            + said("regime", "JustRL's entropy")
            + " Without a network: "
            + said("mechanism", "T1", "S1", "S3", "N1", "N2"),
        ),
        (
            "It is the choice of the silenced tokens that matters.",
            "Ablations of one training each, whose values were not found.",
            said("controls", "T=1.0, top-p 1.0: Random mask", "Random mask's entropy stability"),
        ),
        (
            "Silenced tokens are spurious.",
            "Examples of tokens; how many of the silenced are spurious is not counted.",
            said("spurious", "STAPO silences", "STAPO on STAPO's rollouts")
            + " Without a network: "
            + said("mechanism", "U2", "U3", "H2"),
        ),
        (
            "Rare tokens of low entropy have the largest gradients.",
            "An identity: it needs no table.",
            said("spurious", "On ")
            + " That says what a token does to its logits, and not that silencing it steadies anything:"
            + " [the derivation](../../docs/mechanism.md).",
        ),
        (
            "The thresholds matter.",
            "Two changes on AIME24, one training each ([there](paper.md)).",
            said("sensitivity", "T=1.0, top-p 1.0: tau_p 0.2", "T=0.7, top-p 0.9: .*tau_p 0.2"),
        ),
    ]
    lines = [
        "# The paper's claims: what its tables can show, and what small scale says",
        "",
        "**With one training each the tables can show that checkpoints differ, and not that methods do; what makes "
        "entropy grow late, which silencing is to hold, is not measured.**",
        "",
        "Left, the claim. Middle, what the printed numbers can bear ([how](paper.md)). Right, what our experiments "
        "found, in the words of their pages: models of 0.7 M parameters on arithmetic or puzzles, or no network at "
        "all. A tie there refutes nothing at 1.7B to 14B.",
        "",
        "| Claim | What its tables can show | What small scale says |",
        "|---|---|---|",
        *(f"| {claim} | {shown} | {ours} |" for claim, shown, ours in rows),
        "",
        "## The papers beside it",
        "",
        "| Claim | What its table can show | What small scale says |",
        "|---|---|---|",
        *(f"| {claim} | {shown} | {ours} |" for claim, shown, ours in _beside(said)),
        "",
        "## What would settle it",
        "",
        "In the logs of a training at the published settings, before any new one is made: the mean advantage per "
        "token, the engine's probability of rare tokens over the trainer's, and the change of entropy by each logged "
        "token. [docs/mechanism.md](../../docs/mechanism.md) says which values refute what. Then more than one "
        "training of JustRL and of STAPO: how many tell a lead from seeds stands [beside each lead](paper.md).",
        "",
        "Made by `python -m bench.reanalysis --pages` from the printed cells and `results/experiments/*/summary.json`.",
    ]
    return "\n".join(lines) + "\n"


def _notes(folder: Path) -> str:
    """That a page's verdicts are of an earlier day, and whose steps are two, in words; empty: nothing of it."""
    manifest = folder / "manifest.json"
    about = read_foreign_object(manifest) if manifest.is_file() else {}
    older = "; verdicts and intervals of an earlier day" if of_an_earlier_day(about, folder) else ""
    steps = two_steps(about).strip("*").partition(".")[0] if "variants" in about else ""
    return older + (f"; {steps[0].lower()}{steps[1:]}" if steps else "")


def _beside(said: Callable[..., str]) -> Iterator[tuple[str, str, str]]:
    """The claims of the papers that STAPO is compared with, as the page's rows are."""
    at_one = r"T=1\.0, top-p 1\.0: (Not enough data to tell )?"
    on_aime = [rf"T={decoding}: on the AIME-like tasks " for decoding in (r"1\.0, top-p 1\.0", r"0\.7, top-p 0\.9")]
    yield (
        "AR and Lopti are better than GRPO at knights and knaves, together by up to 46.2 % (arXiv:2505.12929).",
        _leads_over("ar_lopti", "AR + Lopti", "GRPO"),
        said("knights", rf"{at_one}AR (?!\+)", f"{at_one}Lopti", rf"{at_one}AR \+ Lopti"),
    )
    yield (
        "STARE is ahead of DAPO and others by 4 to 8 % on AIME24 and AIME25, its entropy in a target band "
        "(arXiv:2606.19236).",
        _leads_over("stare", "STARE-O1", "GRPO-ds")
        + " DAPO's rows are of other papers and protocols. Of entropy the table holds nothing.",
        said("low-probability", *(f"{each}STARE" for each in on_aime), "STARE's (gate|entropy never)"),
    )
    yield (
        "Lp-Reg is ahead of GRPO on policy (arXiv:2510.03222).",
        _leads_over("lp_reg", "LpReg_on", "GRPO_on"),
        said("low-probability", *(f"{each}Lp-Reg" for each in on_aime), "Lp-Reg's entropy stability"),
    )


def _leads_over(name: str, method: str, other: str) -> str:
    """A printed table's leads of a method over one other, by the mean of its tasks, and how many exceed which error."""
    leads = [lead for lead in table_leads(load_published(name), method, other) if lead.task == "average"]
    values = sorted(lead.value for lead in leads)
    verdicts = [
        f"{error}: {', '.join(f'{word} {count}' for word, count in found.items())}"
        for error in ERROR_NAMES
        for found in [Counter(lead.claims[error].verdict_of_all for lead in leads)]
    ]
    of = points(values[0]) if len(values) == 1 else f"{points(values[0])} to {points(values[-1])}"
    which = f"{method} over {other}, mean of the tasks of known size"
    return f"{which}: {of} points ({'; '.join(verdicts)}); one training each."
