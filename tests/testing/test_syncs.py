"""What a failure says of each place; and who is told of what happens in which thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from decodeprof.capture.places import Frame
from decodeprof.testing.backend import Blocked
from decodeprof.testing.syncs import no_syncs, told

torch = pytest.importorskip("torch")

ITEM = "aten::_local_scalar_dense"
HERE = Path(__file__)
TEXT = "a line of this very file"
LINE = next(n for n, line in enumerate(HERE.read_text().splitlines(), 1) if TEXT in line)


def blocked(*frames: Frame, op: str | None = ITEM) -> Blocked:
    return Blocked("waits for a stream", op, frames)


def test_places_with_their_source_and_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE.parent)
    here = Frame(str(HERE), LINE, "test.<locals>.step")
    library = Frame(pytest.__file__, 1, "generate")
    inside_torch = Frame(torch.__file__, 1, "item")
    generated = Frame("/tmp/torchinductor_me/ab/cab.py", 7, "call")
    text = told(
        [
            blocked(inside_torch, generated, here),
            blocked(library, here, op=None),
            blocked(inside_torch, here),
            blocked(),
        ],
        allow=1,
    )
    package = pytest.__file__.rpartition("/pytest/")[2]
    source = Path(pytest.__file__).read_text().splitlines()[0].strip()
    assert text.splitlines() == [
        "the host was blocked 4 times, 1 allowed",
        f'  test_syncs.py:{LINE} in step: TEXT = "a line of this very file"',
        f"    {ITEM} waits for a stream, 2 times",
        f"  pytest/{package}:1 in generate: {source}",
        "    a call waits for a stream",
        f'    called from test_syncs.py:{LINE} in step: TEXT = "a line of this very file"',
        "  a place without Python frames",
        f"    {ITEM} waits for a stream",
    ]


def test_allow_is_a_number() -> None:
    for wrong in (-1, True, 1.5, "1"):
        with pytest.raises(ValueError, match="allow is a number of blocking calls"):
            no_syncs(allow=wrong)  # type: ignore[arg-type]


def listener() -> tuple[list[Blocked], object]:
    from decodeprof.testing.cuda import _Listener

    noted: list[Blocked] = []
    return noted, _Listener(noted.append)


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> object:
    """A router that is not connected to torch's callbacks: the tests call it instead."""
    from decodeprof.testing import cuda

    made = cuda._Router()
    monkeypatch.setattr(made, "_hooked", True)
    return made


def test_only_the_thread_that_watches_is_told(router) -> None:  # type: ignore[no-untyped-def]
    noted, mine = listener()
    with router.open(mine):
        router.note("stream")
        other = threading.Thread(target=router.note, args=("device",))
        other.start()
        other.join()
    router.note("event")
    assert [each.why for each in noted] == ["waits for a stream"]
    frames = noted[0].stack
    assert frames[0].file == str(HERE)
    assert frames[0].function == "test_only_the_thread_that_watches_is_told"


def test_nested_watchers_are_both_told_and_a_pause_tells_none(router) -> None:  # type: ignore[no-untyped-def]
    outer_noted, outer = listener()
    inner_noted, inner = listener()
    with router.open(outer):
        with router.open(inner):
            router.note("stream")
            with router.paused():
                router.note("device")
        router.note("event")
    assert [each.why for each in inner_noted] == ["waits for a stream"]
    assert [each.why for each in outer_noted] == ["waits for a stream", "waits for an event"]


def test_operators_are_named_and_what_runs_stays_as_it_was() -> None:
    from decodeprof.testing.cuda import _Operators

    noted, mine = listener()
    seen = []
    x = torch.arange(6.0)
    with _Operators(mine):
        y = x.to(torch.float64, non_blocking=True) + 1
        total = y.sum().item()
        seen.append(list(mine.ops))  # type: ignore[attr-defined]
    assert total == 21.0
    assert seen == [[]]
    # Nothing crosses to a device here, so nothing blocks.
    assert noted == []


@pytest.mark.parametrize("under", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_operators_that_are_made_of_others_are_taken_apart(
    under: Callable[[], AbstractContextManager[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from decodeprof.testing import cuda

    asked = []

    def blocks_unseen(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> str | None:
        asked.append((name, kwargs.get("device"), kwargs.get("non_blocking")))
        return "would block" if kwargs.get("non_blocking") else real(name, args, kwargs)

    real = cuda.blocks_unseen
    monkeypatch.setattr(cuda, "blocks_unseen", blocks_unseen)
    noted, mine = listener()
    # The same code outside of the mode and inside of it: inference mode may be on before or after.
    pageable = torch.ones(3, 4)
    with under(), cuda._Operators(mine):  # type: ignore[arg-type]
        moved = pageable.to("meta", non_blocking=True)
    with cuda._Operators(mine), under():  # type: ignore[arg-type]
        pageable.cpu()
        total = pageable.sum().item()
        same = torch.nn.functional.dropout(pageable.add(1), training=False)
    assert (moved.device.type, total, same.mean()) == ("meta", 12.0, 2.0)
    assert asked == [
        ("aten::_to_copy", torch.device("meta"), True),
        ("aten::sum", None, None),
        ("aten::_local_scalar_dense", None, None),
        ("aten::add", None, None),
    ]
    assert [(each.op, each.why) for each in noted] == [("aten::_to_copy", "would block")]


def test_compiled_code_stays_compiled() -> None:
    from torch._dynamo.utils import counters

    from decodeprof.testing.cuda import _Operators

    @torch.compile(backend="aot_eager")
    def step(x):  # type: ignore[no-untyped-def]
        return x.sin() + x.cos()

    x = torch.ones(3)
    counters.clear()
    with _Operators(listener()[1]):
        first = step(x)
    assert counters["stats"]["unique_graphs"] == 1
    assert torch.equal(step(x), first)
    with _Operators(listener()[1]):
        assert torch.equal(step(x), first)
    assert counters["stats"]["unique_graphs"] == 1


class On:
    """Stands for a tensor of a device that is not there: what is decided reads no more of it."""

    def __init__(self, device: str, *, pinned: bool = False, size: int = 4) -> None:
        self.device = torch.device(device)
        self._pinned = pinned
        self._size = size

    def is_pinned(self) -> bool:
        return self._pinned

    def numel(self) -> int:
        return self._size


PAGEABLE, PINNED, DEVICE = On("cpu"), On("cpu", pinned=True), On("cuda")


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "blocks"),
    [
        ("aten::_to_copy", (PAGEABLE,), {"device": "cuda", "non_blocking": True}, True),
        ("aten::_to_copy", (PINNED,), {"device": "cuda", "non_blocking": True}, False),
        ("aten::_to_copy", (PAGEABLE,), {"device": "cuda"}, False),
        ("aten::_to_copy", (DEVICE,), {"device": "cpu", "non_blocking": True}, False),
        ("aten::_to_copy", (PAGEABLE,), {"dtype": torch.half, "non_blocking": True}, False),
        ("aten::_to_copy", (On("cpu", size=0),), {"device": "cuda", "non_blocking": True}, False),
        ("aten::copy_", (DEVICE, PAGEABLE, True), {}, True),
        ("aten::copy_", (DEVICE, PAGEABLE), {"non_blocking": True}, True),
        ("aten::copy_", (DEVICE, PAGEABLE), {}, False),
        ("aten::copy_", (DEVICE, PINNED, True), {}, False),
        ("aten::copy_", (PAGEABLE, DEVICE, True), {}, True),
        ("aten::copy_", (PINNED, DEVICE, True), {}, False),
        ("aten::copy_", (DEVICE, DEVICE, True), {}, False),
        ("aten::copy_", (PAGEABLE, PAGEABLE, True), {}, False),
        ("aten::unique_dim", (DEVICE, 0), {}, True),
        ("aten::unique_dim", (PAGEABLE, 0), {}, False),
        ("aten::add", (DEVICE, 1), {}, False),
    ],
)
def test_what_blocks_without_a_synchronising_call(
    name: str, args: tuple[object, ...], kwargs: dict[str, object], blocks: bool
) -> None:
    from decodeprof.testing.cuda import blocks_unseen

    assert (blocks_unseen(name, args, kwargs) is not None) == blocks
