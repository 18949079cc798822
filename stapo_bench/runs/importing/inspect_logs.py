"""inspect_ai's logs: ``.eval`` archives and ``.json``, a sample per problem and epoch, with every scorer's value."""

from collections.abc import Iterator, Mapping
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.runs.importing.answers import FINISH_REASONS, Answer, Stated, gold_text, own_settings, verdict
from stapo_bench.runs.importing.layouts import said, value_at
from stapo_bench.runs.importing.opening import Opened

_NO_MODEL = ("unknown", "none/none")  # what a log says that must name one


class InspectLog:
    """The reader."""

    name = "inspect_ai"
    reported = "inspect"

    def fits(self, opened: Opened) -> str | None:
        """An archive with a header, or an object with ``eval`` and ``plan``."""
        if opened.kind == "zip":
            names = set(opened.members())
            return "the archive holds a log's header and samples" if _header(names) else None
        if opened.kind in ("json", "json lines") and {"eval", "plan", "version"} <= opened.document.keys():
            return "it has eval, plan and version"
        return None

    def stated(self, opened: Opened) -> Stated:
        """Model and generation settings in the header."""
        head = self.head(opened)
        model = value_at(head, "eval.model")
        given = value_at(head, "eval.model_generate_config") or {}
        return Stated(
            model=model if isinstance(model, str) and model not in _NO_MODEL else None,
            temperature=given.get("temperature"),
            top_p=given.get("top_p"),
            max_new_tokens=given.get("max_tokens"),
            **own_settings(value_at(head, "eval.metadata.stapo_bench"), opened.name),
        )

    def head(self, opened: Opened) -> Mapping[str, Any]:
        """What was evaluated, with which model and settings."""
        if opened.kind != "zip":
            return opened.document
        with opened.archive() as archive:
            return opened.member(archive, str(_header(set(archive.namelist()))))

    def answers(self, opened: Opened) -> Iterator[Answer]:
        """Every sample of every epoch."""
        head = self.head(opened)
        task, title = value_at(head, "eval.task"), value_at(head, "eval.task_display_name")
        for number, sample in enumerate(self.samples(opened), start=1):
            if not {"id", "epoch", "input", "target"} <= sample.keys():
                raise StapoError(f"{opened.name}: sample {number}: expected id, epoch, input, target; repair the log")
            output = sample.get("output")
            output = output if isinstance(output, dict) else {}
            scores = sample.get("scores")
            scores = scores if isinstance(scores, dict) else {}
            values = {name: score for name, score in scores.items() if isinstance(score, dict)}
            text = output.get("completion")
            text = said(value_at(output, "choices.0.message.content"), "assistant") if text is None else text
            tokens = value_at(output, "usage.output_tokens")
            yield Answer(
                completion=str(text or ""),
                question=said(sample["input"], "user"),
                gold=gold_text(sample["target"]),
                item=str(sample["id"]),
                sample=int(sample["epoch"]) - 1,
                verdicts={
                    "" if len(values) == 1 else name: verdict(score.get("value")) for name, score in values.items()
                },
                extracted=next((str(s["answer"]) for s in values.values() if s.get("answer") is not None), None),
                num_tokens=tokens if isinstance(tokens, int) else None,
                task=task if isinstance(task, str) else None,
                title=title if isinstance(title, str) else None,
                finish_reason="error" if not output else FINISH_REASONS.get(str(_stop_reason(output))),
            )

    def samples(self, opened: Opened) -> Iterator[Mapping[str, Any]]:
        """Every sample as the log has it."""
        if opened.kind != "zip":
            found = opened.document.get("samples")
            if not isinstance(found, list):
                raise StapoError(f"{opened.name}: the log holds no samples (it was written without them)")
            yield from (sample for sample in found if isinstance(sample, dict))
            return
        with opened.archive() as archive:
            for name in sorted(archive.namelist()):
                if name.startswith("samples/") and name.endswith(".json"):
                    yield opened.member(archive, name)


def _header(names: set[str]) -> str | None:
    """The member that says what was evaluated; a log that was interrupted has only the journal's."""
    return next((name for name in ("header.json", "_journal/start.json") if name in names), None)


def _stop_reason(output: Mapping[str, Any]) -> Any:
    return value_at(output, "choices.0.stop_reason")
