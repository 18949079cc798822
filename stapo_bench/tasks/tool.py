"""What a model may ask while it writes: a tool takes the text of a call and gives a text back.

    get_tool("calculator").answer("so <calculator>17 * 23</calculator>")   # "<output>391</output>"

The model calls a tool by writing its name as a tag around what it asks. What the tool gives back stands behind the
call, as text that the model reads and did not write. A tool is a pure function: it never raises, and what it cannot do
it says in its output. Neither a call nor its output is an answer: graders read the reply ``without_calls``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stapo_bench.errors import UsageError
from stapo_bench.records import ToolOutput
from stapo_bench.tasks.calculator import calculate


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function from the text of a call to a text, with the marks between which a call stands.

    >>> get_tool("calculator").answer("First <calculator>2 + 2</calculator>")
    '<output>4</output>'
    """

    name: str
    version: int  # raised with every change of what a reply may look like (marks, outputs, calls), or is graded as
    run: Callable[[str], str]

    @property
    def identity(self) -> str:
        """Names the tool and its version: what a run's manifest holds of it."""
        return f"{self.name}-{self.version}"

    @property
    def begin(self) -> str:
        """What the model writes before what it asks."""
        return f"<{self.name}>"

    @property
    def end(self) -> str:
        """What the model writes behind it: there it is stopped, and the output follows."""
        return f"</{self.name}>"

    def answer(self, text: str) -> str:
        """The output for the last call in a text that ends with one, as it stands in the reply."""
        _, begun, asked = text.rpartition(self.end)[0].rpartition(self.begin)
        told = self.run(asked) if begun else f"error: expected {self.begin} before {self.end}"
        return f"<output>{told}</output>"


TOOLS: Mapping[str, Tool] = {"calculator": Tool(name="calculator", version=3, run=calculate)}
"""The tools that there are, by name."""


def get_tool(name: str) -> Tool:
    """The tool of that name; UsageError where there is none."""
    if name not in TOOLS:
        raise UsageError(f"tool: expected one of {', '.join(TOOLS)}, got {name!r}")
    return TOOLS[name]


# A token may end a call and go on (">\n"): its rest stands before the output.
_ANSWERED = re.compile(
    "|".join(rf"(?:{t.begin}(?:(?!{t.begin}).)*?)?{t.end}.{{0,32}}?<output>.*?</output>" for t in TOOLS.values()),
    re.DOTALL,
)


def without_calls(text: str, outputs: Sequence[ToolOutput]) -> str:
    """The reply as it is graded: a space in place of each call that was answered and of its output.

    >>> without_calls("So <calculator>2 + 2</calculator><output>4</output> it is 5.", [ToolOutput(9, (4,))])
    'So   it is 5.'
    >>> without_calls("So <calculator>2 + 2</calculator>\\n<output>4</output>", [ToolOutput(9, (4,))])
    'So  '
    """
    return _ANSWERED.sub(" ", text, count=len(outputs)) if outputs else text
