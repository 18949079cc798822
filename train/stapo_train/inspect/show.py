"""Tables of ``stapo-train``'s commands, in Markdown. Those that need no model are made without loading torch."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stapo_bench.errors import safe_text
from stapo_train.inspect.stability import Stability

if TYPE_CHECKING:
    from stapo_train.inspect.dump import Dump
    from stapo_train.inspect.replay import AuditedToken, Replayed, SweepRow


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown with aligned columns.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    header, *rows = ([safe_text(cell, "markdown") for cell in row] for row in (header, *rows))
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in [header, *rows]]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def replayed(found: Sequence["Replayed"]) -> str:
    """Each objective on the mini-batch, then the overlap of masks and the cosine of gradients."""
    from stapo_train.inspect.replay import cosine, overlap

    rows = [
        [
            r.name,
            f"{r.loss:.6f}",
            str(r.selection.num_tokens),
            str(r.selection.num_candidates),
            str(r.selection.num_tokens - r.selection.num_kept),
            " ".join(f"{name}={value:.4g}" for name, value in r.selection.thresholds.items()),
            f"{r.gradient.norm():.4e}",
            f"{r.logit_norm_share:.2%}",
            f"{r.parameter_norm_share:.2%}",
        ]
        for r in found
    ]
    header = ["objective", "loss", "tokens", "candidates", "silenced", "thresholds", "gradient norm"]
    header += ["silenced share of logit norm²", "silenced / unmasked gradient"]
    names = [r.name for r in found]
    masks = [[a.name, *(_share(overlap(a.selection, b.selection)) for b in found)] for a in found]
    cosines = [[a.name, *(f"{cosine(a, b):.4f}" for b in found)] for a in found]
    parts = [table(header, rows), "Silenced by both / by either:", table(["", *names], masks)]
    return "\n\n".join([*parts, "Cosine of gradients:", table(["", *names], cosines)])


def swept(dump: "Dump", rows: Sequence["SweepRow"], examples: int = 5) -> str:
    """Masked share by thresholds, and the first few texts that enter or leave against the first row."""

    def texts(tokens: Sequence[int]) -> str:
        shown = [repr(_token_text(dump, token)) for token in tokens[:examples]]
        return f"{len(tokens)}: {' '.join(shown)}" if tokens else "0"

    cells = [
        [
            f"{r.tau_p:g}",
            f"{r.q:g}",
            f"{r.tau_h:.4g}",
            str(r.num_candidates),
            str(r.num_silenced),
            f"{r.masked_share:.2e}",
            texts(r.enters),
            texts(r.leaves),
        ]
        for r in rows
    ]
    return table(["tau_p", "q", "tau_h", "candidates", "silenced", "masked share", "enters", "leaves"], cells)


def audited(tokens: Sequence["AuditedToken"], limit: int) -> str:
    """Candidates in context; the token stands between ⟦ and ⟧."""
    header = ["", "token in context", "prob", "entropy", "A", "most likely instead"]
    rows = [
        [
            "silenced" if t.silenced else "kept",
            _cell(f"{t.before}⟦{t.text}⟧{t.after}"),
            f"{t.prob:.2e}",
            f"{t.entropy:.3f}",
            f"{t.advantage:.3f}",
            _cell(" ".join(f"{text!r} {p:.3f}" for text, p in t.alternatives)),
        ]
        for t in tokens[:limit]
    ]
    silenced = sum(t.silenced for t in tokens)
    return f"{len(tokens)} candidates, {silenced} silenced; {len(rows)} shown\n\n{table(header, rows)}"


def stabilities(found: Mapping[str, Stability]) -> str:
    """One row per run, steadiest first."""
    ordered = sorted(found.items(), key=lambda item: -item[1].score)
    rows = [
        [name, f"{s.score:.3f}", s.verdict, f"{s.start:.3f}", f"{s.end:.3f}", f"{s.lowest:.3f}", f"{s.highest:.3f}"]
        for name, s in ordered
    ]
    return table(["run", "score", "verdict", "start", "end", "lowest", "highest"], rows)


def _token_text(dump: "Dump", token: int) -> str:
    row = int(dump.batch.stats.sequence[token])
    return str(dump.tokenizer.decode([dump.batch.rows[row][1][token - dump.batch.starts[row]]]))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _cell(text: str) -> str:
    return text.replace("\n", "⏎")
