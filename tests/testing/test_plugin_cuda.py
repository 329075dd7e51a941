"""On a GPU: what blocks is seen wherever it comes from, what does not is left alone."""

# What a guard is held against is several statements, and operations take inputs that some ignore.
# ruff: noqa: ARG005, PT012, SIM117

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from decodeprof import step
from decodeprof.testing import SyncsFound, TooManyLaunches, max_launches, no_syncs
from decodeprof.testing.launches import CouldNotCount
from tests.testing.inner import arguments

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
pytest_plugins = ["pytester"]

THIS_FILE = Path(__file__).name


class Inputs:
    """Tensors that the operations below take."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(64, 64, device="cuda")
        self.i = torch.randint(0, 5, (64,), device="cuda")
        self.mask = self.x > 0
        self.one = torch.ones((), device="cuda")
        self.p = torch.softmax(self.x, -1)
        self.pageable = torch.ones(64, 64)
        self.pinned = torch.ones(64, 64).pin_memory()
        self.into_pageable = torch.empty(64, 64)
        self.into_pinned = torch.empty(64, 64).pin_memory()
        self.event = torch.cuda.Event()
        torch.cuda.synchronize()


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return Inputs()


Operation = Callable[[Inputs], object]


def waited(operation: Operation, inputs: Inputs) -> list[str]:
    """Why the host was blocked, each time, after one call to warm up."""
    operation(inputs)
    torch.cuda.synchronize()
    with no_syncs(allow=1_000) as watched:
        operation(inputs)
    return [each.why for each in watched.blocked]


BLOCKING: dict[str, tuple[Operation, int]] = {
    "item": (lambda t: t.one.item(), 1),
    "bool": (lambda t: bool(t.one > 0), 1),
    "int": (lambda t: int(t.one), 1),
    "tolist": (lambda t: t.i.tolist(), 1),
    "cpu": (lambda t: t.x.cpu(), 1),
    "numpy": (lambda t: t.x.cpu().numpy(), 1),
    "nonzero": (lambda t: t.x.nonzero(), 1),
    "masked_select": (lambda t: t.x[t.mask], 1),
    "where": (lambda t: torch.where(t.mask), 1),
    "index list": (lambda t: t.x[[0, 1]], 1),
    "tensor": (lambda t: torch.tensor([1, 2, 3], device="cuda"), 1),
    "pageable to": (lambda t: t.pageable.to("cuda"), 1),
    "pinned to": (lambda t: t.pinned.to("cuda"), 1),
    "format": (lambda t: f"{t.one:.2f}", 1),
    "allclose": (lambda t: torch.allclose(t.x, t.x), 1),
    "synchronize": (lambda t: torch.cuda.synchronize(), 1),
    "stream": (lambda t: torch.cuda.current_stream().synchronize(), 1),
    "event": (lambda t: (t.event.record(), t.event.synchronize()), 1),
}


@pytest.mark.parametrize("name", BLOCKING)
def test_what_waits_is_seen(name: str, inputs: Inputs) -> None:
    operation, times = BLOCKING[name]
    assert len(waited(operation, inputs)) == times


def test_kinds_of_waits_are_told_apart(inputs: Inputs) -> None:
    assert waited(BLOCKING["item"][0], inputs) == ["waits for a stream"]
    assert waited(BLOCKING["event"][0], inputs) == ["waits for an event"]
    assert waited(BLOCKING["synchronize"][0], inputs) == ["waits for the device"]


def test_what_waits_inside_a_library_is_seen(inputs: Inputs) -> None:
    assert waited(lambda t: t.x.unique(dim=0), inputs)


STAGED: dict[str, Operation] = {
    "to": lambda t: t.pageable.to("cuda", non_blocking=True),
    "cuda": lambda t: t.pageable.cuda(non_blocking=True),
    "copy_ to the device": lambda t: t.x.clone().copy_(t.pageable, non_blocking=True),
    "copy_ to the host": lambda t: t.into_pageable.copy_(t.x, non_blocking=True),
    "to with dtype": lambda t: t.pageable.to("cuda", torch.float16, non_blocking=True),
}


@pytest.mark.parametrize("name", STAGED)
def test_pageable_copies_are_seen_though_they_make_no_synchronising_call(
    name: str, inputs: Inputs
) -> None:
    found = waited(STAGED[name], inputs)
    assert "copies pageable memory, which non_blocking does not make asynchronous" in found


HARMLESS: dict[str, Operation] = {
    "argmax": lambda t: t.x.argmax(-1),
    "sort": lambda t: t.x.sort(),
    "multinomial": lambda t: torch.multinomial(t.p, 4),
    "where(c, a, b)": lambda t: torch.where(t.mask, t.x, 0.0),
    "masked_fill": lambda t: t.x.masked_fill(t.mask, 1.0),
    "index cuda": lambda t: t.x[t.i],
    "mask assignment": lambda t: t.x.clone().__setitem__(t.mask, 1.0),
    "full": lambda t: torch.full((4,), 2.0, device="cuda"),
    "pinned to, non_blocking": lambda t: t.pinned.to("cuda", non_blocking=True),
    "to the host, non_blocking": lambda t: t.x.to("cpu", non_blocking=True),
    "copy_ into pinned": lambda t: t.into_pinned.copy_(t.x, non_blocking=True),
    "event query": lambda t: (t.event.record(), t.event.query()),
    "add a host scalar": lambda t: t.x + torch.tensor(1.0),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_not_wait_is_left_alone(name: str, inputs: Inputs) -> None:
    assert waited(HARMLESS[name], inputs) == []


def test_the_message_names_each_place_its_text_and_its_op(inputs: Inputs) -> None:
    with pytest.raises(SyncsFound) as caught, no_syncs(allow=1):
        for _ in range(3):
            taken = inputs.one.item()  # the place
        taken = inputs.x.nonzero()
    del taken
    lines = str(caught.value).splitlines()
    assert lines[0] == "the host was blocked 4 times, 1 allowed"
    place = f"{THIS_FILE}:{lines[1].partition(THIS_FILE + ':')[2].partition(' ')[0]}"
    assert lines[1].endswith(": taken = inputs.one.item()  # the place")
    assert place in lines[1]
    assert lines[2] == "    aten::_local_scalar_dense waits for a stream, 3 times"
    assert lines[3].endswith(": taken = inputs.x.nonzero()")
    assert lines[4] == "    aten::nonzero waits for a stream"
    assert len(caught.value.blocked) == 4


def test_as_many_as_allowed_hold(inputs: Inputs) -> None:
    with no_syncs(allow=2):
        inputs.one.item()
        inputs.one.item()


def test_the_error_inside_goes_first(inputs: Inputs) -> None:
    with pytest.raises(KeyError), no_syncs():
        inputs.one.item()
        raise KeyError("its own")


def test_after_it_nothing_is_watched(inputs: Inputs) -> None:
    with no_syncs() as watched:
        inputs.x.add(1)
    inputs.one.item()
    assert watched.blocked == []


def test_other_threads_are_not_counted(inputs: Inputs) -> None:
    with no_syncs():
        other = threading.Thread(target=lambda: inputs.one.item())
        other.start()
        other.join()


def test_warning_filters_and_sync_debug_mode_change_nothing(inputs: Inputs) -> None:
    before = torch.cuda.get_sync_debug_mode()
    for action in ("ignore", "error", "once"):
        with warnings.catch_warnings(), no_syncs(allow=9) as watched:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            torch.cuda.set_sync_debug_mode("default")
            inputs.one.item()
            inputs.one.item()
        assert len(watched.blocked) == 2
    assert torch.cuda.get_sync_debug_mode() == before


def test_inference_mode_and_autograd(inputs: Inputs) -> None:
    with torch.inference_mode():
        assert len(waited(lambda t: t.pageable.to("cuda", non_blocking=True), inputs)) == 1
    weight = torch.ones(64, 64, device="cuda", requires_grad=True)
    (inputs.x @ weight).sum().backward()
    with no_syncs():
        (inputs.x @ weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.filterwarnings("default")  # a compiler's own warnings are not what is tested
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_code_stays_compiled_and_its_syncs_are_seen(backend: str, inputs: Inputs) -> None:
    from torch._dynamo.utils import counters

    if backend == "inductor":
        pytest.importorskip("triton")

    def body(x: torch.Tensor) -> float:
        y = x.sin() + x.cos()
        return float(y.sum()) + float((y * 2).sum())

    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(body, backend=backend)
    compiled(inputs.x)
    compiled(inputs.x)
    graphs = counters["stats"]["unique_graphs"]
    assert graphs > 0
    with no_syncs(allow=9) as watched:
        compiled(inputs.x)
    assert len(watched.blocked) == 2
    assert counters["stats"]["unique_graphs"] == graphs
    for each in watched.blocked:
        assert any(frame.file == __file__ for frame in each.stack)
    # Compiled for the first time inside, it is compiled all the same.
    torch._dynamo.reset()
    counters.clear()
    again = torch.compile(lambda x: x.sin() + x.cos(), backend=backend)
    with no_syncs(allow=1_000):
        again(inputs.x)
    assert counters["stats"]["unique_graphs"] == 1


def graph_of(function: Callable[[], object]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def test_a_graph_replays_without_a_sync(inputs: Inputs) -> None:
    graph = graph_of(lambda: inputs.x.mul_(1.0).add_(0.0))
    with no_syncs():
        for _ in range(5):
            graph.replay()


def test_a_graph_can_be_captured_inside(inputs: Inputs) -> None:
    # Capture synchronises before it begins: that is its own.
    with no_syncs(allow=100):
        graph = graph_of(lambda: inputs.x.mul_(1.0).add_(0.0))
    graph.replay()
    torch.cuda.synchronize()


def adds(x: torch.Tensor, n: int) -> None:
    for _ in range(n):
        x.add_(1.0)


def test_launches_are_counted_exactly(inputs: Inputs) -> None:
    adds(inputs.x, 1)
    with max_launches(20):
        adds(inputs.x, 20)
    with (
        pytest.raises(TooManyLaunches, match=r"20 launches, 19 allowed: 20 kernel") as caught,
        max_launches(19),
    ):
        adds(inputs.x, 20)
    assert "20 by aten::add_" in str(caught.value)
    with max_launches(0):
        pass


def test_a_graph_launch_is_one_launch_and_copies_are_none(inputs: Inputs) -> None:
    graph = graph_of(lambda: adds(inputs.x, 30))
    with max_launches(2):
        graph.replay()
        graph.replay()
        inputs.into_pinned.copy_(inputs.x, non_blocking=True)
    with pytest.raises(TooManyLaunches, match="2 launches, 1 allowed: 0 kernel launches and 2"):
        with max_launches(1):
            graph.replay()
            graph.replay()


def test_launches_of_a_marked_step(inputs: Inputs) -> None:
    def loop() -> None:
        with step("prefill"):
            adds(inputs.x, 50)
        for n in (3, 5, 4):
            with step():
                adds(inputs.x, n)

    with max_launches(5, step="each"):
        loop()
    with max_launches(3, step=0):
        loop()
    with pytest.raises(TooManyLaunches, match="5 launches in decode step 1, 4 allowed"):
        with max_launches(4, step="each"):
            loop()
    with pytest.raises(CouldNotCount, match="3 decode steps"), max_launches(9, step=3):
        loop()


def test_launches_of_all_threads_are_counted(inputs: Inputs) -> None:
    with pytest.raises(TooManyLaunches, match="5 launches, 4 allowed"), max_launches(4):
        adds(inputs.x, 2)
        other = threading.Thread(target=adds, args=(inputs.x, 3))
        other.start()
        other.join()


def test_counting_launches_is_no_sync_of_the_test(inputs: Inputs) -> None:
    with no_syncs() as watched, max_launches(1):
        adds(inputs.x, 1)
    assert watched.blocked == []
    with max_launches(9), no_syncs(allow=1) as watched:
        inputs.one.item()
    assert len(watched.blocked) == 1


GUARDED = """
    import pytest
    import torch

    x = torch.ones(8, device="cuda")
    one = torch.ones((), device="cuda")

    def read():
        return one.item()  # the read

    @pytest.mark.max_launches(3)
    @pytest.mark.no_syncs
    def test_held():
        for _ in range(3):
            x.add_(1)

    @pytest.mark.max_launches(2)
    def test_too_many_launches():
        for _ in range(3):
            x.add_(1)

    @pytest.mark.no_syncs(allow=1)
    def test_too_many_syncs():
        read()
        read()

    def test_fixtures(no_syncs, max_launches):
        with no_syncs(allow=1):
            read()
        with max_launches(1):
            x.add_(1)
"""


def test_markers_and_fixtures_in_a_process_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDED)
    result = pytester.runpytest_subprocess(*arguments())
    result.assert_outcomes(passed=2, failed=2)
    out = result.stdout.str()
    assert "3 launches, 2 allowed: 3 kernel launches and 0 graph launches" in out
    assert "the host was blocked 2 times, 1 allowed" in out
    assert "in read: return one.item()  # the read" in out
    assert "aten::_local_scalar_dense waits for a stream, 2 times" in out
