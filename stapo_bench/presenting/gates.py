"""A gate in words, and for machines: what was required, whether it is shown, and what would settle it."""

import json
import math
from typing import Any
from xml.etree import ElementTree

from stapo_bench.analysis import Comparison, Judged, as_json
from stapo_bench.errors import UsageError, safe_text
from stapo_bench.presenting.parity_words import shown_confounders
from stapo_bench.presenting.verdicts import comparison_as_json, render_comparison, sentence
from stapo_bench.presenting.words import change_interval, counted, ends, markdown_line, points


def render_gate(comparison: Comparison, judged: Judged | None, format_: str = "md") -> str:
    """A comparison with its gate, if there is one.

    Args:
        comparison: of A and B.
        judged: what the gate says of it; None: nothing was required.
        format_: ``md``: the gate's sentence, then the comparison; ``json``: as ``comparison.schema.json`` describes it;
            ``pr``: one line of Markdown; ``junit``: a test case, for CI servers that show such.
    """
    if judged is None and format_ == "junit":
        raise UsageError("--format junit shows a gate: expected --fail-if or --require beside it")
    if format_ == "pr":
        alone = sentence(comparison).replace(" (below)", "")  # nothing stands below this line
        return markdown_line(_said(comparison, judged) if judged else alone)
    if judged is None:
        return render_comparison(comparison, format_)
    if format_ == "json":
        return json.dumps({**comparison_as_json(comparison), "gate": _json(comparison, judged)}, indent=2)
    if format_ == "junit":
        return _junit(comparison, judged)
    return "\n".join([markdown_line(_said(comparison, judged)), "", render_comparison(comparison, format_)])


def _said(comparison: Comparison, judged: Judged) -> str:
    """Passed, failed or undecided, what was required, and why."""
    required = judged.requirement
    if judged.state == "refuted":
        head = f"**Failed**: it is {'shown' if required.if_refuted else 'refuted'} that"
        text = required.if_refuted
    elif judged.state == "shown":
        head, text = "**Passed**: it is shown that", required.if_shown
    else:
        head, text = "**Undecided** whether", required.if_refuted
    return f"{head} {_is(comparison, text or required.text)}. {_why(comparison, judged)}"


def _required(comparison: Comparison, judged: Judged) -> str:
    return _is(comparison, judged.requirement.text)


def _is(comparison: Comparison, text: str) -> str:
    return f"{comparison.name_b} is {text.format(a=comparison.name_a)}"


def _why(comparison: Comparison, judged: Judged) -> str:
    required = judged.requirement
    looks = "" if required.looks == 1 else f", so that {counted(required.looks, 'look')} hold together"
    text = (
        f"{comparison.name_b} − {comparison.name_a} is {points(judged.value)} points, "
        f"{100 * judged.confidence:g} % interval {change_interval(judged.interval)} on {required.about}{looks}."
    )
    if judged.reasons:
        text += f" Not decided, since {' and '.join(judged.reasons)}."
    confounders = ", ".join(item.field for item in shown_confounders(comparison))
    text += f" Not the weights alone differ: {confounders}." if confounders else ""
    return text + _settling(judged, any(task.clustering for task in comparison.tasks))


def _settling(judged: Judged, clustered: bool) -> str:
    """What would settle an open gate; ``clustered``: problems belong together."""
    if (found := judged.settled_by) is None:
        return ""
    if math.isnan(judged.interval.low):
        return " Too few problems are decided in both to tell what would settle it."
    ways = [f"{counted(found.num_samples, 'sample')} per problem and side"] if found.num_samples else []
    more = "as many samples" + (" and as large clusters" if clustered else "") + " as now"
    ways += [f"{counted(found.num_problems, 'problem')} with {more}"] if found.num_problems else []
    if not ways:
        return " No number of samples or problems would settle it if the difference is as observed."
    alone = "" if found.num_samples else "; more samples of these problems alone are not known to"
    return f" If the difference is as observed, about {' or '.join(ways)} would settle it (power 80 %){alone}."


def _json(comparison: Comparison, judged: Judged) -> dict[str, Any]:
    settled, required = judged.settled_by, judged.requirement
    return {
        "requirement": _required(comparison, judged),
        "about": required.about,
        "looks": required.looks,
        "state": judged.state,
        "effect": as_json(judged.value),
        "interval": ends(judged.interval),
        "confidence": judged.confidence,
        "shown_above": required.shown_above,
        "refuted_below": required.refuted_below,
        "reasons": list(judged.reasons),
        "settled_by": None
        if settled is None
        else {"num_samples": settled.num_samples, "num_problems": settled.num_problems},
    }


def _junit(comparison: Comparison, judged: Judged) -> str:
    """One test case: refuted is its failure; undecided is skipped, with what would settle it."""
    counts = {"tests": "1", "failures": str(int(judged.state == "refuted")), "errors": "0"}
    counts["skipped"] = str(int(judged.state == "undecided"))
    suite = ElementTree.Element("testsuite", {"name": "stapo-bench compare", **counts})
    names = {"classname": safe_text(f"{comparison.name_a} to {comparison.name_b}", "terminal")}
    case = ElementTree.SubElement(
        suite, "testcase", {**names, "name": safe_text(_required(comparison, judged), "terminal")}
    )
    if judged.state != "shown":
        kind = "failure" if judged.state == "refuted" else "skipped"
        ElementTree.SubElement(case, kind, {"message": safe_text(_why(comparison, judged), "terminal")})
    ElementTree.SubElement(case, "system-out").text = safe_text(sentence(comparison), "terminal")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=False)
