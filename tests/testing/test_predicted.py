"""Without a CUDA device: what would block is predicted, and what cannot be predicted is a skip."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from decodeprof.testing import CannotWatch, SyncsFound, max_launches, no_syncs
from tests.testing.inner import passed_in

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="is for machines without a CUDA device"
)
pytest_plugins = ["pytester"]

PAGEABLE = "would copy pageable memory, which non_blocking does not make asynchronous"
READS = "would wait: the host reads a value that the device computes"

BLOCKING: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "item": (lambda x: x.sum().item(), [READS]),
    "nothing": (lambda x: x + 1, []),
    "cpu": (lambda x: x.cpu(), ["would wait: a blocking copy from the device to the host"]),
    "pageable": (lambda _: torch.ones(2).to("cuda", non_blocking=True), [PAGEABLE]),
    "pinned": (lambda _: torch.ones(2).pin_memory().to("cuda", non_blocking=True), []),
    "synchronize": (
        lambda _: torch.cuda.synchronize(),
        ["would wait: the program asks to wait"],
    ),
    "two values": (lambda x: torch.tensor([x[0], x[1]]), [READS, READS]),
    "on the host": (lambda _: torch.ones(2).sum().item(), []),
}


@pytest.mark.parametrize("name", BLOCKING)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
def test_what_would_block_is_predicted(name: str, mode: Callable[[], Any]) -> None:
    operation, whys = BLOCKING[name]
    with mode(), no_syncs(allow=9) as watched:
        operation(torch.zeros(4, device="cuda"))
    assert [each.why for each in watched.blocked] == whys
    for each in watched.blocked:
        assert each.predicted
        assert next(frame.file for frame in each.stack if "/torch/" not in frame.file) == __file__
    assert not torch.cuda.is_available()


def test_the_message_says_that_it_is_a_prediction() -> None:
    with pytest.raises(SyncsFound) as caught, no_syncs():
        torch.ones(3, device="cuda").tolist()  # the place
    lines = str(caught.value).splitlines()
    assert lines[0] == "the host would be blocked 1 time, none allowed"
    assert lines[1].endswith(': torch.ones(3, device="cuda").tolist()  # the place')
    assert lines[2].startswith("    Tensor.tolist would wait: ")
    assert lines[3:] == [
        "  predicted: torch finds no CUDA device, so the code ran on the CPU as if there were one"
    ]


def test_where_nothing_is_on_a_gpu_nothing_was_learnt() -> None:
    nothing = "nothing inside ran on tensors of the device `cuda`"
    with pytest.raises(CannotWatch, match=nothing), no_syncs():
        torch.ones(3).sum().item()
    with pytest.raises(KeyError), no_syncs():
        raise KeyError("its own")


def test_guards_nest_and_other_threads_are_not_told() -> None:
    with no_syncs(allow=2) as outer:
        x = torch.ones(3, device="cuda")
        other = threading.Thread(target=x.tolist)
        other.start()
        other.join()
        x.tolist()
        with no_syncs(allow=1) as inner:
            x.tolist()
    assert (len(outer.blocked), len(inner.blocked)) == (2, 1)


def test_launches_are_not_counted() -> None:
    counted = "launches are counted on a CUDA device"
    with pytest.raises(CannotWatch, match=counted), max_launches(1):
        raise RuntimeError("not run")


PREDICTED = """
    import pytest
    import torch

    @pytest.fixture
    def model():
        model = torch.nn.Linear(4, 4).cuda()
        yield model
        assert next(model.parameters()).is_cuda  # still so when the fixture ends

    @pytest.fixture
    def kernel():
        raise RuntimeError("0 active drivers ([]). There should only be one.")

    def test_fixture(model, no_syncs):
        x = torch.ones(4, device="cuda")
        model(x).tolist()  # warming up is outside
        with no_syncs(allow=1):
            model(x).argmax().item()

    @pytest.mark.no_syncs(allow=1)
    def test_marker(model):
        for _ in range(2):
            model(torch.ones(4, device="cuda")).argmax().item()  # line 23

    @pytest.mark.no_syncs
    def test_on_the_host_alone():
        assert torch.ones(4).sum().item() == 4

    @pytest.mark.no_syncs
    def test_of_a_kernel(kernel):
        pass

    @pytest.mark.no_syncs
    def test_of_an_extension(model):
        raise AssertionError("Torch not compiled with CUDA enabled")

    @pytest.mark.no_syncs
    def test_its_own_failure(model):
        assert model is None

    def test_of_something_else():
        assert not torch.cuda.is_available()
        assert torch.ones(3).device.type == "cpu"
"""


def test_a_whole_test_pretends_with_its_fixtures(pytester: pytest.Pytester) -> None:
    result = passed_in(pytester, PREDICTED)
    result.assert_outcomes(passed=2, failed=2, skipped=3)
    out = result.stdout.str()
    assert "the host would be blocked 2 times, 1 allowed" in out
    assert "fixtures.py:23 in test_marker: model(torch.ones(4, device=" in out
    assert "model is None" in out
    skips = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert len(skips) == 3
    for line, said in zip(
        sorted(skips, key=lambda line: int(line.split(".py:")[1].split(":")[0])),
        ["nothing inside ran on tensors", "0 active drivers", "not compiled with CUDA"],
        strict=True,
    ):
        assert said in line
        assert "] test_a_whole_test_pretends_with_its_fixtures.py:" in line
        assert "torch finds no CUDA device" in line
