"""How does a report look in a terminal? Walks a view, block by block, and prints lines with rich.

Every line is laid out here, to the console's width, and printed as a `Text`: no markup is parsed.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from decodeprof import units
from decodeprof.report.blocks import (
    Bar,
    Block,
    Card,
    Code,
    Column,
    Facts,
    Headline,
    Leaf,
    Line,
    Listing,
    Note,
    Paragraph,
    Row,
    Section,
    Style,
    Table,
    View,
)
from decodeprof.report.layout import apportioned, column_widths

_STYLES: dict[Style, str] = {
    "plain": "",
    "strong": "bold",
    "muted": "dim",
    "code": "cyan",
    "place": "bold",
    "good": "green",
    "warning": "yellow",
    "bad": "bold red",
    "busy": "green",
    "sync": "red",
    "launch": "yellow",
    "dispatch": "blue",
    "python": "magenta",
    "device": "cyan",
    "dependency": "bright_blue",
    "unknown": "dim",
}
_NOTE_MARKS: dict[str, tuple[str, Style]] = {
    "none": ("✓ ", "good"),
    "unknown": ("? ", "warning"),
    "caveat": ("! ", "warning"),
    "hint": ("  ", "muted"),
}
_INDENT = 2
_GAP = 2
# A number and its unit stay on one line. The stand-in for the space between them is a character of
# private use, one cell wide; a no-break space would not do, since rich breaks lines there too.
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=(?:[nµm]?s|%|×|[kMGT]?B(?:/s)?)(?![0-9A-Za-z]))")
_GLUE = "\ue000"
_NARROWEST_TEXT = 20
"""Text is not wrapped to fewer cells than this; beside a wide value it goes below."""


def render(view: View, console: Console) -> None:
    """Print a view to a console, as wide as the console is."""
    width = max(console.width, 40)
    _print(console, _wrapped(view.title, width))
    for section in view.sections:
        _print(console, _section_lines(section, width))


def text(view: View, *, width: int) -> str:
    """A view as plain text without colour, for files and tests."""
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None, force_terminal=False, _environ={})
    render(view, console)
    return file.getvalue()


def _print(console: Console, lines: list[Text]) -> None:
    for one in lines:
        one.rstrip()
        console.print(one, soft_wrap=True)


def _section_lines(section: Section, width: int) -> list[Text]:
    lines = [Text()]
    indent = 0
    if section.title:
        lines.append(Text().append(section.title, "bold underline"))
        indent = _INDENT
    previous: Block | None = None
    for block in _flat(section.blocks):
        if previous is not None and _stands_apart(previous, block):
            lines.append(Text())
        lines += [_indented(one, indent) for one in _block_lines(block, width - indent)]
        previous = block
    return lines


def _flat(blocks: Sequence[Block]) -> Iterator[Leaf]:
    """The blocks, with those of a card in its place: indentation tells cards apart here."""
    for block in blocks:
        if isinstance(block, Card):
            yield from block.blocks
        else:
            yield block


def _stands_apart(above: Block, below: Block) -> bool:
    """Whether an empty line helps between two blocks: notes and codes belong to what is above."""
    if isinstance(below, Paragraph | Table | Bar):
        return True
    return isinstance(above, Table) and not isinstance(below, Note)


@functools.singledispatch
def _block_lines(block: Block, width: int) -> list[Text]:
    raise TypeError(f"no way to print a {type(block).__name__} in {width} cells")


@_block_lines.register
def _(block: Headline, width: int) -> list[Text]:
    lines = _wrapped(block.text, width)
    for one in lines:
        one.stylize("bold")
    return lines


@_block_lines.register
def _(block: Paragraph, width: int) -> list[Text]:
    return _wrapped(block.text, width)


@_block_lines.register
def _(block: Listing, width: int) -> list[Text]:
    return [one for item in block.items for one in _hanging(Text("- "), item, width)]


@_block_lines.register
def _(block: Note, width: int) -> list[Text]:
    mark, style = _NOTE_MARKS[block.kind]
    lines = _hanging(_styled(mark, style), block.text, width)
    if block.kind == "hint":
        for one in lines:
            one.stylize(_STYLES["muted"])
    return lines


@_block_lines.register
def _(block: Code, width: int) -> list[Text]:
    lines = [_styled(block.place, "place")] if block.place else []
    if block.text:
        code = _styled(block.text, "code")
        lines += [_indented(one, _INDENT) for one in _wrap(code, width - _INDENT)]
    return lines


@_block_lines.register
def _(block: Facts, width: int) -> list[Text]:
    label_width = max((cell_len(row.label) for row in block.rows), default=0)
    # A value with nothing beside it may run on; it does not widen the column.
    values = [_text(row.value).cell_len for row in block.rows if row.detail]
    value_width = min(max(values, default=0), width // 3)
    lines = []
    for row in block.rows:
        head = _padded(_styled(row.label, "muted"), label_width + _GAP)
        if not row.detail:
            lines += _hanging(head, row.value, width)
            continue
        value = _text(row.value)
        if value.cell_len > value_width:
            lines += _hanging(head, row.value, width)
            lines += _hanging(Text(" " * head.cell_len), row.detail, width)
            continue
        head.append_text(_padded(value, value_width + _GAP))
        lines += _hanging(head, row.detail, width)
    return lines


@_block_lines.register
def _(block: Bar, width: int) -> list[Text]:
    drawn = [part for part in block.parts if part.value_ns > 0]
    bar = Text()
    for part, cells in zip(drawn, apportioned([p.value_ns for p in drawn], width), strict=True):
        bar.append(part.key * cells, style=_STYLES[part.style])
    lines = [Text(block.caption), bar]
    label_width = max((cell_len(part.label) for part in drawn), default=0)
    times = [units.time(part.value_ns) for part in drawn]
    shares = [units.share(part.value_ns / block.total_ns) for part in drawn]
    time_width, share_width = max(map(cell_len, times)), max(map(cell_len, shares))
    for part, time, share in zip(drawn, times, shares, strict=True):
        head = _styled(part.key, part.style)
        head.append(f" {part.label:{label_width}}", style=_STYLES["plain"])
        head.append(f"  {time:>{time_width}}  {share:>{share_width}}  ", style=_STYLES["plain"])
        lines += _hanging_text(head, _styled(part.meaning, "muted"), width)
    zero = [part.label for part in block.parts if part.value_ns == 0]
    if zero:
        lines += _wrap(_styled(f"no time: {', '.join(zero)}", "muted"), width)
    return lines


@_block_lines.register
def _(block: Table, width: int) -> list[Text]:
    texts = [[_text(cell) for cell in row.cells] for row in block.rows]
    needed = [
        max([cell_len(column.title), *(row[i].cell_len for row in texts)])
        for i, column in enumerate(block.columns)
    ]
    shrinkable = [column.align == "left" for column in block.columns]
    widths = column_widths(needed, shrinkable=shrinkable, room=width - _GAP * (len(needed) - 1))
    titles = [_styled(column.title, "muted") for column in block.columns]
    lines = [_cells(titles, block.columns, widths)]
    for index, (row, cells) in enumerate(zip(block.rows, texts, strict=True)):
        if index and row.above:
            lines.append(Text())
        lines += _row_lines(row, _cells(cells, block.columns, widths), width)
    if block.more:
        lines += _wrap(_styled(block.more, "muted"), width)
    return lines


def _row_lines(row: Row, cells: Text, width: int) -> list[Text]:
    lines = []
    for index, above in enumerate(row.above):
        lines += _hanging(Text(" " * _INDENT if index else ""), above, width)
    lines.append(cells)
    for below in row.below:
        lines += _hanging(Text(" " * _INDENT), below, width)
    return lines


def _cells(cells: Sequence[Text], columns: Sequence[Column], widths: Sequence[int]) -> Text:
    joined = Text()
    for index, (cell, column, width) in enumerate(zip(cells, columns, widths, strict=True)):
        fitted = cell.copy()
        fitted.truncate(width, overflow="ellipsis")
        missing = " " * (width - fitted.cell_len)
        if index:
            joined.append(" " * _GAP)
        if column.align == "right":
            joined.append(missing).append_text(fitted)
        else:
            joined.append_text(fitted).append(missing)
    return joined


def _styled(text: str, style: Style) -> Text:
    """Text of one style; a style of the whole `Text` would spread to what is appended."""
    return Text().append(text, style=_STYLES[style])


def _text(spans: Line) -> Text:
    text = Text()
    for span in spans:
        text.append(span.text, style=_STYLES[span.style])
    return text


def _wrap(text: Text, width: int) -> list[Text]:
    measure = Console(file=io.StringIO(), width=width, color_system=None, _environ={})
    glued = text.copy()
    glued.plain = _BEFORE_UNIT.sub(_GLUE, glued.plain)
    lines = list(glued.wrap(measure, max(width, _NARROWEST_TEXT)))
    for one in lines:
        one.plain = one.plain.replace(_GLUE, " ")
    return lines


def _wrapped(spans: Line, width: int) -> list[Text]:
    return _wrap(_text(spans), width)


def _hanging(head: Text, spans: Line, width: int) -> list[Text]:
    return _hanging_text(head, _text(spans), width)


def _hanging_text(head: Text, body: Text, width: int) -> list[Text]:
    """The body wrapped beside its head; below it, indented, where too little room is left."""
    room = width - head.cell_len
    if room < _NARROWEST_TEXT:
        below = _wrap(body, width - 2 * _INDENT)
        return [head, *(_indented(one, 2 * _INDENT) for one in below)]
    lines = _wrap(body, room) or [Text()]
    first = head.copy().append_text(lines[0])
    return [first, *(_indented(one, head.cell_len) for one in lines[1:])]


def _padded(text: Text, width: int) -> Text:
    return text.append(" " * max(0, width - text.cell_len), style=_STYLES["plain"])


def _indented(text: Text, cells: int) -> Text:
    return Text(" " * cells).append_text(text) if cells else text
