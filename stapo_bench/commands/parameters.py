"""Commands with many parameters: the function takes the click context, and makes typed records of what it holds."""

import json
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
from click.types import StringParamType

from stapo_bench.commands.options import Number
from stapo_bench.engines import EngineOptions, engine_names, has_engine, preset, preset_names
from stapo_bench.errors import did_you_mean
from stapo_bench.records import PromptStyle

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Function = TypeVar("Function", bound=Callable[..., Any])
Record = TypeVar("Record", bound="DataclassInstance")

STYLE = [part.name for part in fields(PromptStyle)]
"""The parameters of ``style_options``; None: the task file's own."""

_LONGEST = 1_000_000  # bytes of a text from a file
_SHOWN = [option.name for option in fields(EngineOptions) if "flag" in option.metadata]  # options that have a flag


_SECTIONS = {
    "What is evaluated": ("ckpt", "base", "revision", "model", "dtype", "quantization"),
    "On what": ("tasks", "suite", "samples", "limit", "data_dir", "seed"),
    "Prompts": ("prompt_format", *STYLE),
    "Decoding": (
        "decoding",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "stop",
        "max_new_tokens",
        "budgets",
        "thinking_end",
    ),
    "Engine": ("engine", *_SHOWN),
}
"""Headings of a long help, and the parameters below each; the others stand under "Options"."""


class ContextCommand(click.Command):
    """A command whose function takes its context alone; ``context.params`` holds the parameters."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under headings, so that each is found."""
        heading = {name: title for title, names in reversed(_SECTIONS.items()) for name in names}
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in (*_SECTIONS, "Options")}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                records[heading.get(parameter.name or "", "Options")].append(record)
        for title, listed in records.items():
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with the context."""
        assert self.callback is not None
        return ctx.invoke(self.callback, ctx)


def record_of(record: type[Record], params: Mapping[str, Any]) -> Record:
    """A record of those parameters that are named as its fields are."""
    names = {field.name for field in fields(record)}
    return record(**{name: value for name, value in params.items() if name in names})


class EngineName(StringParamType):
    """An engine's name: one of ours, or one that another package brings."""

    name = "engine"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """All names, as a choice shows them."""
        return f"[{'|'.join(engine_names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; a usage error with the nearest one for a name that no engine has."""
        if not has_engine(value):
            names = engine_names()
            hint = did_you_mean(value, names)
            listed = ", ".join(map(repr, names))
            self.fail(f"{value!r} is not one of {listed}" + (f"; {hint}" if hint else ""), param, ctx)
        return str(value)


class DecodingName(StringParamType):
    """A decoding preset's name, or a YAML file that holds one."""

    name = "decoding"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """All names, as a choice shows them."""
        return f"[{'|'.join(preset_names())}|FILE.yaml]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; a usage error where it names no preset, or its file holds none."""
        preset(value)
        return str(value)


class TextOrFile(StringParamType):
    """A text, or with ``@`` before its name the file that holds it."""

    name = "text|@file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself."""
        from stapo_bench.tasks import read_foreign_text

        if not str(value).startswith("@"):
            return str(value)
        path = Path(str(value)[1:])
        if not path.is_file():
            self.fail(f"{path}: no such file; a text of its own begins with anything but @", param, ctx)
        return read_foreign_text(path, _LONGEST)


class JsonObject(StringParamType):
    """A JSON object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Its fields; what is no object, or holds what JSON has no number for, is refused."""
        try:
            found = json.loads(value, parse_constant=_no_number)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.fail(f"expected a JSON object such as '{{\"enable_thinking\": false}}', got {value!r}", param, ctx)
        return found


def _no_number(constant: str) -> None:
    raise ValueError(constant)


class ExamplesFile(StringParamType):
    """A file of solved examples."""

    name = "file.jsonl"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The examples."""
        from stapo_bench.tasks import read_examples

        return read_examples(Path(value))


class Budgets(StringParamType):
    """Numbers of tokens with commas between."""

    name = "n,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The numbers, each above 0."""
        parts = str(value).split(",")
        if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            self.fail(f"expected numbers of tokens from 1 up, such as 1024,4096, got {value!r}", param, ctx)
        return [int(part) for part in parts]


def thinking_options(function: Function) -> Function:
    """``--thinking-budget``, whose numbers are in ``budgets``, and ``--thinking-end``."""
    function = click.option(
        "--thinking-end", type=TextOrFile(), help="The text that ends it; default: </think> and line breaks."
    )(function)
    return click.option(
        "--thinking-budget",
        "budgets",
        type=Budgets(),
        multiple=True,
        callback=lambda _ctx, _parameter, values: [budget for value in values for budget in value],
        help="End thinking that goes on after so many tokens, and answer; a run for each number: 1024,4096.",
    )(function)


def style_options(function: Function) -> Function:
    """What stands around the questions, each in place of the task file's: a parameter for each of ``STYLE``."""
    for option in (
        click.option("--assistant-prefix", type=TextOrFile(), help="How the reply begins; part of the completion."),
        click.option(
            "--chat-template-kwargs",
            type=JsonObject(),
            help="What the chat template is told, as '{\"enable_thinking\": false}'.",
        ),
        click.option(
            "--fewshot", "examples", type=ExamplesFile(), help="Solved examples: problem and answer, an object a line."
        ),
        click.option("--system", type=TextOrFile(), help="The system's message, in place of the task file's."),
    ):
        function = option(function)
    return function


def engine_options(prefix: str = "") -> Callable[[Function], Function]:
    """``--engine`` and every engine option that has a flag; with the prefix ``judge-``: ``--judge-engine``, …"""

    def add(function: Function) -> Function:
        for name in reversed(_SHOWN):
            function = engine_option(name, prefix)(function)
        engine = _parameter(prefix, "engine")
        return click.option(f"--{prefix}engine", engine, type=EngineName(), default="auto", show_default=True)(function)

    return add


def _click_type(option: Field[Any]) -> Any:
    """How click reads an engine option: by the type of its field."""
    kinds = get_args(option.type)
    if isinstance(option.default, bool):
        return bool
    return click.IntRange(min=1) if int in kinds else Number(0, 1, min_open=True) if float in kinds else str


def engine_option(name: str, prefix: str = "") -> Callable[[Function], Function]:
    """One engine option, by its field's name."""
    option = EngineOptions.__dataclass_fields__[name]
    return click.option(
        option.metadata["flag"].replace("--", f"--{prefix}", 1),
        _parameter(prefix, name),
        type=_click_type(option),
        multiple=isinstance(option.default, tuple),
        is_flag=isinstance(option.default, bool),
        help=option.metadata["help"].replace("--engine", f"--{prefix}engine"),
    )


def engine_of(params: Mapping[str, Any], prefix: str = "") -> EngineOptions:
    """The record of what ``engine_options`` added."""
    given = {name: params[_parameter(prefix, name)] for name in _SHOWN}
    return EngineOptions(name=params[_parameter(prefix, "engine")], **given)


def _parameter(prefix: str, name: str) -> str:
    """The parameter's name in Python."""
    return prefix.replace("-", "_") + name
