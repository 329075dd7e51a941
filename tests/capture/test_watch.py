"""Boundaries seen through real modules, with and without torch.compile."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from decodeprof import mark
from decodeprof.capture.choose import Choice, choose
from decodeprof.capture.hooks import ModuleHooks, shape_of
from decodeprof.capture.watch import NO_SHAPE, Boundary, Shape, Watch


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Noted:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def start(self, boundary: Boundary) -> None:
        self.heard.append(boundary.label())

    def end(self, boundary: Boundary) -> None:
        del boundary
        self.heard.append("end")

    def withdraw(self) -> None:
        self.heard.append("withdrawn")


@pytest.fixture
def hooks() -> Iterator[tuple[Watch, ModuleHooks]]:
    watch = Watch()
    modules = ModuleHooks(watch)
    yield watch, modules
    modules.remove()


def _counters() -> dict[str, Any]:
    from torch._dynamo.utils import counters

    return {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": dict(counters["graph_break"]),
    }


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_module_of_torchscript_is_watched(hooks: tuple[Watch, ModuleHooks]) -> None:
    watch, modules = hooks
    model, other = torch.jit.script(Outer()), Inner()
    x = torch.randn(2, 4)
    modules.watch_all()
    watch.discover()
    other(model(x))
    found = watch.discovered()
    modules.remove()
    keys = [call.key for call in found.calls if call.key == id(model)]
    modules.watch_these(set(keys))
    watch.use(Choice(frozenset(keys), ambiguous=False))
    watch.listener = noted = Noted()
    for _ in range(2):
        other(model(x))
    assert noted.heard == ["decodeprof.forward m=0", "end"] * 2


@pytest.mark.parametrize("how", ["module", "in place", "function", "submodules", "call"])
def test_watching_neither_breaks_nor_recompiles_what_is_compiled(
    hooks: tuple[Watch, ModuleHooks], how: str
) -> None:
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    watch, modules = hooks
    model = Outer()
    model.requires_grad_(False)
    run: Any = {
        "module": lambda: torch.compile(model, backend="eager"),
        "function": lambda: torch.compile(lambda x: model(x) + 1, backend="eager", fullgraph=True),
        "call": lambda: torch.compile(model.__call__, backend="eager"),
    }.get(how, lambda: model)()
    if how == "in place":
        model.compile(backend="eager")
    if how == "submodules":
        model.first = torch.compile(model.first, backend="eager")
        model.second.compile(backend="eager")
    x = torch.randn(2, 4)
    # As in a recording: the first call runs with nothing attached.
    run(x)
    compiled = _counters()
    modules.watch_all()
    watch.discover()
    with pytest.warns(UserWarning, match="global hooks") if _warns(how) else _nothing():
        run(x)
        run(x)
    found = watch.discovered()
    modules.remove()
    choice = choose(found.calls, tokens=2)
    modules.watch_these(set(choice.keys))
    watch.use(choice)
    watch.listener = noted = Noted()
    run(x)
    watch.listener = None
    run(x)
    assert _counters() == compiled
    assert compiled["breaks"] == {}
    # A compiled function shows nothing of the modules inside.
    assert len(noted.heard) == (0 if how in ("function", "call") else 2)


def _warns(how: str) -> bool:
    return how in ("module", "submodules")


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_outermost_calls_and_their_shapes(hooks: tuple[Watch, ModuleHooks]) -> None:
    watch, modules = hooks
    model = Outer()
    modules.watch_all()
    watch.discover()
    model(torch.randn(2, 5, 4))
    model.first(torch.randn(2, 1, 4))
    found = watch.discovered()
    assert [call.key for call in found.calls] == [id(model), id(model.first)]
    assert found.shapes == [Shape(5, 2), Shape(1, 2)]
    assert found.inside[id(model.first)] == {id(model)}


def test_a_part_that_is_chosen_is_no_boundary_inside_the_whole(
    hooks: tuple[Watch, ModuleHooks],
) -> None:
    watch, modules = hooks
    model = Outer()
    modules.watch_all()
    watch.discover()
    model(torch.randn(2, 5, 4))
    watch.discovered()
    both = {id(model), id(model.first)}
    modules.watch_these(both)
    watch.use(Choice(frozenset(both)))
    watch.listener = noted = Noted()
    model(torch.randn(2, 5, 4))
    model.first(torch.randn(1, 1, 4))
    assert noted.heard == [
        "decodeprof.forward m=0 q=5 b=2",
        "end",
        "decodeprof.forward m=1 q=1 b=1",
        "end",
    ]


def test_an_exception_inside_a_forward_ends_it(hooks: tuple[Watch, ModuleHooks]) -> None:
    watch, modules = hooks
    model = Outer()
    modules.watch_all()
    watch.discover()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 3))
    assert [call.key for call in watch.discovered().calls] == [id(model), id(model)]


def test_each_thread_has_its_own_nesting() -> None:
    watch = Watch()
    watch.use(Choice(frozenset("a")))
    watch.listener = noted = Noted()
    watch.enter(mark.FORWARD, "other", NO_SHAPE)
    thread = threading.Thread(target=lambda: watch.enter(mark.FORWARD, "a", NO_SHAPE))
    thread.start()
    thread.join()
    watch.enter(mark.FORWARD, "a", NO_SHAPE)
    assert noted.heard == ["decodeprof.forward m=0"]


def test_replays_inside_a_forward_are_no_steps_but_new_graphs_outside_are() -> None:
    watch = Watch()
    watch.use(
        Choice(frozenset({"m", ("graph", 0)})), graphs=frozenset({("graph", 0), ("graph", 1)})
    )
    watch.listener = noted = Noted()
    watch.enter(mark.FORWARD, "m", Shape(3, 1))
    watch.enter(mark.REPLAY, ("graph", 0), NO_SHAPE)
    watch.leave()
    watch.leave()
    for number in (0, 1, 2):
        watch.enter(mark.REPLAY, ("graph", number), NO_SHAPE)
        watch.leave()
    assert [each for each in noted.heard if each != "end"] == [
        "decodeprof.forward m=0 q=3 b=1",
        "decodeprof.replay g=0",
        "decodeprof.replay g=1",
    ]


def test_a_call_that_was_broken_off_leaves_no_trace() -> None:
    watch = Watch()
    watch.use(Choice(frozenset("a")))
    watch.listener = noted = Noted()
    watch.enter(mark.FORWARD, "b", NO_SHAPE)
    watch.reset()
    watch.leave()
    watch.enter(mark.FORWARD, "a", NO_SHAPE)
    assert noted.heard == ["decodeprof.forward m=0"]


ids = torch.zeros(3, 7, dtype=torch.int64)
mask = torch.ones(3, 20, dtype=torch.int64)
hidden = torch.zeros(3, 5, 8)


@pytest.mark.parametrize(
    ("args", "kwargs", "shape"),
    [
        ((ids,), {}, Shape(7, 3)),
        ((ids[0],), {}, Shape(7, 1)),
        ((), {"attention_mask": mask, "input_ids": ids}, Shape(7, 3)),
        ((), {"attention_mask": mask, "inputs_embeds": hidden}, Shape(5, 3)),
        ((hidden,), {"position_ids": ids}, Shape(5, 3)),
        ((hidden[0],), {"flag": True}, NO_SHAPE),
    ],
)
def test_query_length_and_batch_come_from_shapes(
    args: tuple[Any, ...], kwargs: dict[str, Any], shape: Shape
) -> None:
    assert shape_of(args, kwargs) == shape


def test_watch_itself_needs_no_torch() -> None:
    import subprocess

    code = "import sys, decodeprof.capture.watch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Marked:
    """A target whose steps are marked, within two marks around the whole call."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        mark.observe(watch)

    def __call__(self) -> None:
        with mark.step(), mark.step():
            with mark.step("prefill"):
                self.watch.enter(mark.FORWARD, "model", NO_SHAPE)
                self.watch.leave()
            for _ in range(3):
                with mark.step():
                    self.watch.enter(mark.FORWARD, "model", NO_SHAPE)
                    self.watch.leave()


@pytest.fixture
def marked() -> Iterator[Marked]:
    yield Marked(Watch())
    mark.observe(None)


def test_the_targets_own_marks_begin_its_steps(marked: Marked) -> None:
    watch = marked.watch
    watch.discover()
    marked()
    found = watch.discovered()
    # The two outermost ones hold all the others: they are the call.
    assert found.marks_depth() == 2
    assert found.steps_marked() == ["prefill", "decode", "decode", "decode"]
    watch.use(choose(found.calls, tokens=4))
    watch.marks_depth = found.marks_depth()
    watch.listener = noted = Noted()
    marked()
    # Forwards begin no steps beside them.
    assert noted.heard == ["decodeprof.step", "end"] * 4


def test_one_mark_alone_is_no_step(marked: Marked) -> None:
    watch = marked.watch
    watch.discover()
    with mark.step():
        pass
    assert watch.discovered().marks_depth() is None
    watch.listener = noted = Noted()
    marked()
    assert noted.heard == []


def test_items_are_told_beside_boundaries() -> None:
    watch = Watch()
    told: list[str] = []
    watch.on_item = lambda: told.append("item")
    for exhausted in (False, False, True):
        watch.ask()
        watch.answered(exhausted=exhausted)
    assert told == ["item", "item"]
