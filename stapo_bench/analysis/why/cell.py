"""A run and a printed cell: what the page says about how it was made, against what the run's manifest says.

Of a printed number there are no samples, so most causes can only be bounded by the run's own: other graders that graded
it, what its cut samples could have become, what it would have scored under the page's smaller limit. What the page does
differently without a bound, or does not state, is ``unknown`` and stands among the suspects.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stapo_bench.analysis.published import Protocol, PublishedRow, PublishedTable, load_published
from stapo_bench.analysis.token_limits import sample_matrix
from stapo_bench.analysis.why.parts import (
    Explanation,
    Part,
    TaskGap,
    average_gap,
    in_order,
    mean_and_error,
    rest_in_parts,
)
from stapo_bench.analysis.why.two_runs import ScoredRun, read_scored
from stapo_bench.engines import sampling_in_words
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import StatedSampling
from stapo_bench.runs import About, split_golds
from stapo_bench.statistics import avg_at_k
from stapo_bench.tasks import load_task


def find_row(table: PublishedTable, wanted: Sequence[str], about: About, sampling: StatedSampling) -> PublishedRow:
    """The row that is meant: its model and method have all of these words; by default the run's model and method.

    Of rows that differ in their decoding alone it is the one with the run's, unless a word names a regime.

    Raises:
        UsageError: none, or several.
    """
    if wanted:
        found = _with(wanted, [(row, f"{row.model} {row.method}") for row in table.rows])
        found = found or _with(wanted, [(row, _named(row)) for row in table.rows])
    else:
        found = _with([about.model or ""], [(row, row.model) for row in table.rows])
        method = (about.method or "").casefold()
        found = [row for row in found if row.method.casefold() == method] or found
    here = [row for row in found if _same_decoding(table.protocol_of(row), sampling)]
    if len({(row.model, row.method) for row in found}) == 1 and len(here) == 1:
        found = here
    if len(found) == 1:
        return found[0]
    words = " ".join(wanted or filter(None, (about.model, about.method)))
    listed = "; ".join(map(_named, found or table.rows))
    raise UsageError(
        f"table '{table.name}': expected one row for '{words}', got {len(found)}; choose by --row 'WORD WORD' among: "
        f"{listed}"
    )


def _with(words: Sequence[str], rows: Sequence[tuple[PublishedRow, str]]) -> list[PublishedRow]:
    return [row for row, text in rows if all(word.casefold() in text.casefold() for word in words)]


def _same_decoding(protocol: Protocol, sampling: StatedSampling) -> bool:
    return (protocol.temperature, protocol.top_p, protocol.top_k or None) == (
        sampling.temperature,
        sampling.top_p,
        sampling.top_k,
    )


def _named(row: PublishedRow) -> str:
    return " ".join(filter(None, (row.model, row.method, row.regime)))


def why_published(run_dir: Path, table: str, wanted: Sequence[str] = (), grader: str | None = None) -> Explanation:
    """Split printed - measured into its causes.

    Args:
        run_dir: a run folder.
        table: name of a published table, see ``published_names``.
        wanted: words that choose its row; empty: the row of the run's model and method.
        grader: name of the run's grade file; None: the one that its number rests on.

    Raises:
        StapoError: no task in common.
        UsageError: no such table or row.
    """
    printed = load_published(table)
    side = read_scored(run_dir, grader)
    manifest = side.run.manifest
    row = find_row(printed, wanted, manifest.about, manifest.identity.sampling)
    names = [task for task in side.run.tasks if task in row.scores]
    if not names:
        raise StapoError(
            f"nothing to explain: {side.run.name} has {', '.join(side.run.tasks)}; {table} prints "
            f"{', '.join(row.scores)}"
        )
    found = [_TaskAndCell(side, printed, row, task) for task in names]
    tasks = tuple(one.gap() for one in found)
    left_out = sorted({*side.run.tasks} ^ {*row.scores})
    return Explanation(
        name_a=side.run.name,
        name_b=f"{printed.title}: {_named(row)}",
        tasks=tasks,
        average=average_gap(tasks),
        suspects=tuple(_other_weights(side, row)),
        notes=(
            f"{printed.paper}, {printed.version}; {printed.source}; confidence {printed.confidence}"
            + (f"; looked at on {printed.looked_at}" if printed.looked_at else ""),
            *([f"the page: {printed.protocol.note}"] if printed.protocol.note else []),
            *([f"only on one side, left out: {', '.join(left_out)}"] if left_out else []),
        ),
    )


def _other_weights(side: ScoredRun, row: PublishedRow) -> Iterator[str]:
    """Whether the run is of the model that the row is about, as far as their names say."""
    about = side.run.manifest.about
    if about.model is None or about.model.casefold() not in row.model.casefold():
        yield f"weights: {about.model or 'model not stated'} in the run, {row.model} ({row.method}) on the page"


@dataclass(frozen=True)
class _TaskAndCell:
    """One task of the run and its printed cell."""

    side: ScoredRun
    table: PublishedTable
    row: PublishedRow
    task: str

    @property
    def protocol(self) -> Protocol:
        return self.table.protocol_of(self.row)

    def gap(self) -> TaskGap:
        """The parts of printed - measured."""
        run, printed = self.side.run, self.row.scores[self.task]
        scores = run.outcomes[self.task].scores
        measured, error = mean_and_error(scores)
        parts = [self._problems(), *self._graders(), self._truncation(), self._prompt(), self._decoding()]
        rest = printed - measured - sum(part.value for part in parts)
        slack = sum(part.below for part in parts), sum(part.above for part in parts)
        errors = [error, self._printed_error(error), *(part.standard_error for part in parts)]
        parts += rest_in_parts(rest, math.hypot(*errors), slack)
        return TaskGap(
            task=self.task, title=run.title(self.task), value_a=measured, value_b=printed, parts=in_order(parts)
        )

    def _printed_error(self, measured_error: float) -> float:
        """The printed number's own sampling error, as if its model's problems were as variable; and its rounding."""
        rounding = 0.01 * 10.0**-self.table.decimals / math.sqrt(12.0)
        samples = self.table.samples.get(self.task)
        of_samples = (
            measured_error * math.sqrt(self.side.run.tasks[self.task].num_samples / samples) if samples else 0.0
        )
        return math.hypot(of_samples, rounding)

    def _problems(self) -> Part:
        here, there = self.side.run.tasks[self.task].num_problems, self.table.num_problems.get(self.task)
        if here == there:
            return Part(cause="problems", knowledge="same")
        note = f"{here} problems here, {'a number that is not stated' if there is None else there} there"
        return Part(cause="problems", knowledge="unknown", note=note)

    def _graders(self) -> Iterator[Part]:
        """How far other graders, and corrected golds, move this run's own number."""
        own = avg_at_k(self.side.run.outcomes[self.task].scores)
        moves: dict[str, list[tuple[str, float]]] = {"golds": [], "grader": []}
        for name, run in self.side.by_grader.items():
            if name != self.side.grades:
                same_rule = split_golds(name)[0] == split_golds(self.side.grades)[0]
                value = avg_at_k(run.outcomes[self.task].scores)
                moves["golds" if same_rule else "grader"].append((name, value - own))
        there = self.protocol.grader or "not stated"
        stated = {
            "golds": "whether they were corrected is not printed",
            "grader": f"{self.side.run.grader} here, {there} there",
        }
        for cause in ("golds", "grader"):
            known = [(name, move) for name, move in moves[cause] if not math.isnan(move)]
            if not known:
                how = f"'stapo-bench grade {self.side.run.name} " + (
                    "--golds corrected' says what known errata do" if cause == "golds" else "--grader NAME' bounds it"
                )
                yield Part(cause=cause, knowledge="unknown", note=f"{stated[cause]}; {how}")
                continue
            listed = ", ".join(f"{name} {100 * move:+.1f}" for name, move in known)
            yield Part(
                cause=cause,
                knowledge="bounded",
                below=max(0.0, *(-move for _, move in known)),
                above=max(0.0, *(move for _, move in known)),
                note=f"{stated[cause]}; this run by {listed}",
            )

    def _truncation(self) -> Part:
        here, there = self.side.run.manifest.identity.sampling.max_new_tokens, self.protocol.max_new_tokens
        told = [(s.num_tokens, s.truncated) for s in self.side.run.samples.get(self.task, [])]
        if here is None or any(None in pair for pair in told):
            return Part(cause="truncation", knowledge="unknown", note="limit or lengths of this run are not known")
        if there is None:
            return Part(cause="truncation", knowledge="unknown", note=f"{here} tokens here, not stated there")
        if here == there:
            return Part(cause="truncation", knowledge="same")
        scores = self.side.run.outcomes[self.task].scores
        note = f"{here} tokens here, {there} there"
        if there > here:
            cut = sample_matrix(
                self.side.run, self.task, lambda sample: float(bool(sample.truncated) and sample.correct == 0.0)
            )
            open_ = mean_and_error(np.where(np.isnan(scores), np.nan, cut))[0]
            return Part(
                cause="truncation",
                knowledge="bounded",
                above=open_,
                note=f"{note}; {100 * open_:.1f} % of the samples are cut off and wrong here",
            )
        long_ = sample_matrix(self.side.run, self.task, lambda sample: float((sample.num_tokens or 0) > there))
        change, error = mean_and_error(np.where(long_ == 1.0, 0.0, scores) - scores)
        return Part(
            cause="truncation",
            knowledge="measured",
            value=change,
            standard_error=error,
            note=f"{note}; {100 * float(np.nanmean(long_)):.1f} % of the samples are longer and count as wrong",
        )

    def _prompt(self) -> Part:
        there = self.protocol.prompt
        form = self.side.run.manifest.identity.tasks[self.task].prompt_format
        if there is None:
            return Part(cause="prompt", knowledge="unknown", note="not stated there")
        here = load_task(self.side.run.manifest.task_files[self.task]).question_template
        if " ".join(here.split()) == " ".join(there.split()) and (self.protocol.prompt_format in (None, form)):
            return Part(cause="prompt", knowledge="same")
        shown = " ".join(there.replace("{{problem}}", "…").split())
        around = f", {self.protocol.prompt_format}" if self.protocol.prompt_format else ""
        return Part(cause="prompt", knowledge="unknown", note=f"{form or 'form unknown'} here; there “{shown}”{around}")

    def _decoding(self) -> Part:
        params, there = self.side.run.manifest.identity.sampling, self.protocol
        if there.temperature is None or there.top_p is None:
            return Part(cause="decoding", knowledge="unknown", note="temperature or top-p is not stated there")
        here = sampling_in_words(params)
        printed = sampling_in_words(
            StatedSampling(temperature=there.temperature, top_p=there.top_p, top_k=there.top_k or None)
        )
        if here == printed:
            return Part(cause="decoding", knowledge="same")
        return Part(cause="decoding", knowledge="unknown", note=f"{here} here, {printed} there")
