"""Where does an iteration begin, in a loop that calls no module?

Python 3.12 and later can report the lines that one function runs, at no cost to any other
function. Lines are counted in a warm-up call; the loop is the outermost one whose body ran once a
token. Before 3.12, and where no loop or more than one qualifies, there is no mark.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

SUPPORTED = sys.version_info >= (3, 12)
_FEWEST_ITERATIONS = 3
"""With the number of tokens unknown, fewer are no repetition to speak of."""


def code_of(function: Any) -> CodeType | None:
    """The code that a target's own body runs in; None for what is not written in Python."""
    inner = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    return code if isinstance(code, CodeType) else None


def loops(code: CodeType) -> list[tuple[int, int]]:
    """Each loop in a function's own body: its depth, and the line on which its body begins."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return []
    found: list[tuple[int, int]] = []

    def walk(node: ast.AST, depth: int) -> None:
        for child in ast.iter_child_nodes(node):
            inner = depth
            if isinstance(
                child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
            ):
                continue
            if isinstance(child, ast.For | ast.AsyncFor | ast.While):
                found.append((depth, child.body[0].lineno + first - 1))
                inner += 1
            walk(child, inner)

    if tree.body:
        walk(tree.body[0], 0)
    return found


def choose_line(
    found: list[tuple[int, int]], counts: Mapping[int, int], *, tokens: int | None
) -> int | None:
    """The line that begins an iteration; None: no loop qualifies, or more than one.

    Args:
        found: depth and first body line of each loop.
        counts: how often each line ran in one call.
        tokens: new tokens of that call; None: not known.
    """
    for depth in sorted({depth for depth, _ in found}):
        lines = [line for level, line in found if level == depth]
        if tokens is not None:
            fitting = [line for line in lines if 0 <= tokens - counts.get(line, -1) <= 1]
        else:
            fitting = [line for line in lines if counts.get(line, 0) >= _FEWEST_ITERATIONS]
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


class LineWatch:
    """Reports lines of one function while it runs; only where `SUPPORTED`."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._tool: int | None = None

    def count(self) -> Counter[int]:
        """Begin to count; the counter is filled as the function runs."""
        counts: Counter[int] = Counter()

        def count(line: int) -> bool:
            counts[line] += 1
            return True

        self._start(count)
        return counts

    def report(self, line: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `line` begins to run; other lines cost nothing after once."""

        def called(number: int) -> bool:
            if number != line:
                return False
            callback()
            return True

        self._start(called)

    def _start(self, on_line: Callable[[int], bool]) -> None:
        if sys.version_info >= (3, 12):
            monitoring = sys.monitoring
            self.stop()
            free = [each for each in range(6) if monitoring.get_tool(each) is None]
            if not free:
                return
            # Low ids are a debugger's and a coverage tool's by convention.
            self._tool = free[-1]
            monitoring.use_tool_id(self._tool, "decodeprof")

            def line_event(code: CodeType, line: int) -> Any:
                if code is self._code and on_line(line):
                    return None
                return monitoring.DISABLE

            monitoring.register_callback(self._tool, monitoring.events.LINE, line_event)
            monitoring.set_local_events(self._tool, self._code, monitoring.events.LINE)
            monitoring.restart_events()

    def stop(self) -> None:
        """Report nothing any more."""
        if sys.version_info >= (3, 12) and self._tool is not None:
            sys.monitoring.set_local_events(self._tool, self._code, 0)
            sys.monitoring.register_callback(self._tool, sys.monitoring.events.LINE, None)
            sys.monitoring.free_tool_id(self._tool)
            self._tool = None
