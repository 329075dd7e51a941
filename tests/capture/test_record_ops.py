"""Two steps of a program are recorded as it runs, and a graph's hazards are read off them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.cond import cond_op

from decodeprof import mark
from decodeprof.analysis.hazards import graph_hazards
from decodeprof.capture.op_record import OpRecorder, RecordingMode
from decodeprof.capture.places import Places
from decodeprof.capture.record_ops import StepRecorder, first_to_record
from decodeprof.capture.watch import Boundary
from decodeprof.model.lint import Hazard
from decodeprof.model.ops import OpRecord

HOST: list[Tensor] = []
"""Tensors that stay on the host; all others count as on a device, so that none is needed."""


def where(tensor: Tensor) -> torch.device:
    return torch.device("cpu" if any(tensor is each for each in HOST) else "cuda:0")


@pytest.fixture(autouse=True)
def _nothing_on_the_host() -> None:
    HOST.clear()


def record(step: Callable[[int], object], *, steps: int = 8) -> OpRecord:
    recorder = OpRecorder(where)
    counter = StepRecorder(recorder, first=first_to_record(steps))
    with torch.no_grad(), RecordingMode(recorder, where):
        for number in range(steps):
            counter.start(Boundary(mark.FORWARD))
            step(number)
            counter.end(Boundary(mark.FORWARD))
    found = recorder.record(Places(str(Path(__file__).parent)))
    assert found is not None
    return found


def hazards(step: Callable[[int], object]) -> list[Hazard]:
    return graph_hazards(record(step))


def test_a_step_that_stays_where_it_is() -> None:
    layer, state = nn.Linear(4, 4), torch.ones(1, 4)
    found = record(lambda _: state.copy_(layer(state)))
    assert [step.step for step in (found.first, found.second)] == [3, 4]
    assert [call.name for call in found.first.calls] == [call.name for call in found.second.calls]
    assert found.first.forward_calls == len(found.first.calls)
    assert graph_hazards(found) == []


def test_a_number_that_is_baked_in_is_named_with_its_line() -> None:
    state = torch.ones(1, 4)

    def step(number: int) -> None:
        state.add_(number)  # this line

    (hazard,) = hazards(step)
    assert (hazard.kind, hazard.severity) == ("scalar", "wrong")
    assert hazard.place.code == "state.add_(number)  # this line"
    assert hazard.place.file == Path(__file__).name
    assert "3 → 4" in hazard.summary


def test_a_tensor_of_python_values_is_copied_and_waited_for() -> None:
    state = torch.ones(1, 4)

    def step(number: int) -> None:
        token = torch.tensor([float(number)])  # on a device
        state.mul_(token)

    (hazard,) = hazards(step)
    assert (hazard.kind, hazard.severity) == ("sync", "refused")
    assert hazard.place.code == "token = torch.tensor([float(number)])  # on a device"
    assert "from the host to the device" in hazard.summary


def test_a_branch_is_chosen_by_the_host_and_where_a_function_lies_is_no_value() -> None:
    state = torch.ones(1, 4)
    above = torch.ones(()) > 0

    def step(_: int) -> None:
        cond_op(above, lambda x: (x + 1,), lambda x: (x - 1,), (state,))

    (hazard,) = hazards(step)
    assert (hazard.kind, hazard.op) == ("sync", "cond")


def test_a_number_that_the_host_holds_as_a_tensor_is_baked_in_as_well() -> None:
    state = torch.ones(1, 4)
    numbers = [torch.tensor(float(number)) for number in range(8)]
    HOST.extend(numbers)
    (hazard,) = hazards(lambda number: state.mul_(numbers[number]))
    assert hazard.kind == "scalar"


def test_reading_a_value_and_a_branch_on_it() -> None:
    state = torch.ones(1, 4)

    def step(_: int) -> None:
        state.add_(1)
        if int(state[0, 0]) % 2:
            state.neg_()
            state.neg_()

    assert {hazard.kind for hazard in hazards(step)} == {"sync", "sequence"}


def test_what_the_program_still_holds_is_followed_on_the_device() -> None:
    state, kept = torch.ones(1, 4), []

    def step(_: int) -> None:
        kept.append(state * 2)

    (hazard,) = hazards(step)
    assert hazard.kind == "kept_output"


def test_storages_are_told_apart_although_their_addresses_recur() -> None:
    def step(_: int) -> None:
        made = torch.ones(1024)
        made.add_(1)
        del made

    assert hazards(step) == []
    shared = torch.zeros(1024)
    inputs = [torch.full((1024,), float(number)) for number in range(8)]
    (hazard,) = hazards(lambda number: shared.add_(inputs[number]))
    assert hazard.kind == "input"
