"""What is a report made of? Blocks of text, with styles named by meaning; no renderer is assumed.

The terminal and the HTML page walk the same blocks, so they cannot disagree. Text that came from a
trace or a script is cleaned when a `Span` is built: no control or formatting character survives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from decodeprof.report.names import cleaned

Style = Literal[
    "plain",
    "strong",
    "muted",
    "code",
    "place",
    "good",
    "warning",
    "bad",
    "busy",
    "sync",
    "launch",
    "dispatch",
    "python",
    "device",
    "dependency",
    "unknown",
]
"""What a piece of text is; a renderer chooses how each looks."""


@dataclass(frozen=True)
class Span:
    """Text of one style. It holds no line break and no control character."""

    text: str
    style: Style = "plain"

    def __post_init__(self) -> None:
        """Clean the text, wherever it came from."""
        object.__setattr__(self, "text", cleaned(self.text))


Line: TypeAlias = tuple[Span, ...]
"""Spans that follow each other with nothing between."""


def line(*parts: str | Span) -> Line:
    """A line of spans; bare strings are plain text."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


@dataclass(frozen=True)
class Headline:
    """The one sentence that a reader must not miss."""

    text: Line


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: Line


@dataclass(frozen=True)
class Fact:
    """One figure: what it is, its value, and what stands behind it."""

    label: str
    value: Line
    detail: Line = ()


@dataclass(frozen=True)
class Facts:
    """Figures below each other, values aligned."""

    rows: tuple[Fact, ...]


@dataclass(frozen=True)
class BarPart:
    """One part of a bar. `key` is one character, different for each part: colour is never alone."""

    key: str
    label: str
    value_ns: int
    style: Style
    meaning: str


@dataclass(frozen=True)
class Bar:
    """Parts that sum to the whole, exactly; parts of zero are listed and not drawn."""

    caption: str
    total_ns: int
    parts: tuple[BarPart, ...]

    def __post_init__(self) -> None:
        """Refuse parts that do not sum to the whole."""
        total = sum(part.value_ns for part in self.parts)
        if total != self.total_ns:
            raise ValueError(f"the parts sum to {total} ns, not to {self.total_ns}")


@dataclass(frozen=True)
class Column:
    """A table's column; numbers are aligned right."""

    title: str
    align: Literal["left", "right"] = "left"


@dataclass(frozen=True)
class Row:
    """One line of cells, with lines above and below it that run over the whole width."""

    cells: tuple[Line, ...]
    above: tuple[Line, ...] = ()
    below: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows under columns; every row has one cell for each column."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    more: str = ""
    """What is not shown, said below the table."""

    def __post_init__(self) -> None:
        """Refuse a row with missing cells."""
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells under {len(self.columns)} columns")


@dataclass(frozen=True)
class Listing:
    """Items, in order."""

    items: tuple[Line, ...]


@dataclass(frozen=True)
class Code:
    """A line of source, or a command, and where it stands."""

    text: str
    place: str = ""
    number: int | None = None
    """The line's number in its file."""
    excerpt: tuple[tuple[int, str], ...] = ()
    """Numbered lines around it, itself among them, for renderers with room."""

    def __post_init__(self) -> None:
        """Clean all of it, as spans are; an excerpt keeps its indentation."""
        object.__setattr__(self, "text", cleaned(self.text))
        object.__setattr__(self, "place", cleaned(self.place))
        excerpt = tuple((number, cleaned(text)) for number, text in self.excerpt)
        object.__setattr__(self, "excerpt", excerpt)


@dataclass(frozen=True)
class Note:
    """A remark. "none" and "unknown" are different answers and look different."""

    kind: Literal["none", "unknown", "caveat", "hint"]
    text: Line


Leaf: TypeAlias = Headline | Paragraph | Facts | Bar | Table | Listing | Code | Note


@dataclass(frozen=True)
class Card:
    """Blocks that belong together, such as one finding; `key` names it, `weight` is its rank."""

    key: str
    weight: Literal["high", "medium", "low", "info"]
    blocks: tuple[Leaf, ...]


Block: TypeAlias = Leaf | Card


@dataclass(frozen=True)
class Section:
    """Blocks under a title; `key` names it for links."""

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class View:
    """A whole report, in reading order."""

    title: Line
    sections: tuple[Section, ...]
