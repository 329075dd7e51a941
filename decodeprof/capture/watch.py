"""When does a step of the target begin?

`Watch` is told of every call that might begin one: forwards of modules, through hooks (never by
wrapping `forward`, whose signature `transformers` reads); replays of CUDA graphs; a generator's
being asked; a line of the target's own loop. It passes the outermost of the chosen ones on to a
listener, which is what a pass does with a boundary.

torch is not imported here: `hooks` connects it.
"""

from __future__ import annotations

import threading
from collections import Counter as Counting
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from decodeprof import mark
from decodeprof.capture.choose import Choice, OutermostCall


@dataclass(frozen=True)
class Shape:
    """What a forward was given; None: no tensor told it."""

    query: int | None = None
    batch: int | None = None


NO_SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class Boundary:
    """The beginning of a step."""

    name: str
    """mark.FORWARD | mark.REPLAY | mark.YIELD | mark.LOOP | mark.STEP."""
    number: int = 0
    """Which module, or which graph."""
    shape: Shape = NO_SHAPE
    prefill: bool = False
    """The target's own mark says so."""

    def label(self) -> str:
        """The mark's text."""
        if self.name == mark.REPLAY:
            return mark.label(mark.REPLAY, g=self.number)
        if self.name != mark.FORWARD:
            return self.name
        values = {"m": self.number}
        if self.shape.query is not None:
            values["q"] = self.shape.query
        if self.shape.batch is not None:
            values["b"] = self.shape.batch
        return mark.label(mark.FORWARD, **values)


class Listener(Protocol):
    """What a pass does at a boundary."""

    def start(self, boundary: Boundary) -> None:
        """A step begins here, and with it a forward, a replay or a wait for an item."""

    def end(self, boundary: Boundary) -> None:
        """That forward, replay or wait is over; the step is not."""

    def withdraw(self) -> None:
        """The last boundary began no step: the generator was exhausted."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.open: list[Boundary | None] = []
        self.keys: list[Hashable] = []
        self.marks: list[Boundary | None] = []


@dataclass
class Discovery:
    """What was seen while every call was watched."""

    calls: list[OutermostCall]
    shapes: list[Shape]
    inside: dict[Hashable, set[Hashable]]
    """For each module that ran inside another: the outermost ones it ran in."""
    threads: set[int]
    marks: list[tuple[int, str]] = field(default_factory=list)
    """The target's own marks: how many others each lies in, and its phase."""

    def marks_depth(self) -> int | None:
        """How deep the marks of steps lie: the outermost level that holds several; None: none.

        A mark that holds all others is the whole call, and no step.
        """
        counts = Counting(depth for depth, _ in self.marks)
        return next((depth for depth in sorted(counts) if counts[depth] > 1), None)

    def steps_marked(self) -> list[str]:
        """The phases of the marks that are steps."""
        wanted = self.marks_depth()
        return [phase for depth, phase in self.marks if depth == wanted]


class Watch:
    """Finds the outermost calls and tells a listener of those that begin steps."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.by_yields = False
        """A generator's being asked is what begins a step."""
        self.marks_depth: int | None = None
        """Marks of the target's own begin steps, those that lie in so many others."""
        self.on_item: Callable[[], None] | None = None
        """Told of each item that a generator yields."""
        self._choice: Choice | None = None
        self._discovery: Discovery | None = None
        self._stack = _Stack()
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._graphs_begin_steps = False
        self._known_graphs: set[Hashable] = set()
        self.replays = 0
        """All replays, wherever they were called."""
        self.around_replays: Callable[[], AbstractContextManager[None]] | None = None
        """Entered around each replay, where something wants to time them."""

    def discover(self) -> None:
        """From now on, note every outermost call, and report no boundary."""
        self._discovery = Discovery([], [], {}, set())

    def discovered(self) -> Discovery:
        """Stop noting, and return what was seen."""
        assert self._discovery is not None
        found, self._discovery = self._discovery, None
        return found

    def use(self, choice: Choice | None, *, graphs: frozenset[Hashable] = frozenset()) -> None:
        """Report the chosen calls as boundaries.

        Args:
            choice: as chosen; None: there are none.
            graphs: keys of all graphs that were seen. A graph that appears later begins a step if
                any of these does: a new length may have been captured.
        """
        self._choice = choice
        self._known_graphs = set(graphs)
        self._graphs_begin_steps = choice is not None and bool(choice.keys & graphs)

    def reset(self) -> None:
        """Forget calls that never ended: the last call of the target was broken off."""
        self._stack.open.clear()
        self._stack.keys.clear()
        self._stack.marks.clear()

    def enter(self, name: str, key: Hashable, shape: Shape) -> None:
        """A module's forward or a graph's replay begins."""
        stack = self._stack
        boundary = None
        outermost = not stack.keys
        if self._discovery is not None:
            self._note(key, shape, outermost=outermost)
        elif outermost and self.listener is not None and self._begins_step(name, key):
            boundary = Boundary(name, self._number(name, key), shape)
            self.listener.start(boundary)
        stack.keys.append(key)
        stack.open.append(boundary)

    def leave(self) -> None:
        """The innermost forward or replay is over."""
        stack = self._stack
        if not stack.keys:
            return  # It began before it was watched.
        stack.keys.pop()
        boundary = stack.open.pop()
        if boundary is not None and self.listener is not None:
            self.listener.end(boundary)

    def _note(self, key: Hashable, shape: Shape, *, outermost: bool) -> None:
        assert self._discovery is not None
        if outermost:
            self._discovery.calls.append(OutermostCall(key, shape.query))
            self._discovery.shapes.append(shape)
            self._discovery.threads.add(threading.get_ident())
        else:
            self._discovery.inside.setdefault(key, set()).add(self._stack.keys[0])

    def _begins_step(self, name: str, key: Hashable) -> bool:
        if self._choice is None or self.marks_depth is not None:
            return False
        if key in self._choice.keys:
            return True
        return name == mark.REPLAY and self._graphs_begin_steps and key not in self._known_graphs

    def _number(self, name: str, key: Hashable) -> int:
        known = self._numbers.get((name, key))
        if known is None:
            known = sum(1 for kind, _ in self._numbers if kind == name)
            self._numbers[name, key] = known
        return known

    def ask(self) -> None:
        """A generator target is asked for its next item."""
        if self.by_yields and self.listener is not None:
            self.listener.start(Boundary(mark.YIELD))

    def answered(self, *, exhausted: bool) -> None:
        """The generator answered, or was exhausted."""
        if self.on_item is not None and not exhausted:
            self.on_item()
        if self.by_yields and self.listener is not None:
            self.listener.end(Boundary(mark.YIELD))
            if exhausted:
                self.listener.withdraw()

    def marked(self, phase: str) -> None:
        """A mark of the target's own is entered."""
        marks = self._stack.marks
        boundary = None
        if self._discovery is not None:
            self._discovery.marks.append((len(marks), phase))
            self._discovery.threads.add(threading.get_ident())
        elif self.listener is not None and len(marks) == self.marks_depth:
            boundary = Boundary(mark.STEP, prefill=phase == "prefill")
            self.listener.start(boundary)
        marks.append(boundary)

    def unmarked(self) -> None:
        """The innermost mark is left."""
        marks = self._stack.marks
        boundary = marks.pop() if marks else None
        if boundary is not None and self.listener is not None:
            self.listener.end(boundary)

    def loop(self) -> None:
        """An iteration of the target's own loop begins."""
        if self.listener is not None:
            boundary = Boundary(mark.LOOP)
            self.listener.start(boundary)
            self.listener.end(boundary)


class Counter:
    """A listener that counts steps, and remembers the first one's shape."""

    def __init__(self) -> None:
        self.boundaries = 0
        self.first: Shape = NO_SHAPE
        self.threads: set[int] = set()

    def start(self, boundary: Boundary) -> None:
        """Count."""
        if not self.boundaries:
            self.first = boundary.shape
        self.boundaries += 1
        self.threads.add(threading.get_ident())

    def end(self, boundary: Boundary) -> None:
        """Nothing to do."""

    def withdraw(self) -> None:
        """Count one fewer."""
        self.boundaries -= 1

    @property
    def step(self) -> int:
        """The step that is under way: 0 is the prefill, and what comes before any boundary."""
        return max(0, self.boundaries - 1)
