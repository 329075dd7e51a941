"""The ceilings as a process of their own."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
import torch

from decodeprof.capture.measure_ceilings import MeasuredCeilings
from decodeprof.model.ceilings import Ceilings


def measured() -> MeasuredCeilings:
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof.capture.measure_ceilings"],
        capture_output=True,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=MeasuredCeilings)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_nothing_is_known_and_the_reason_is_said() -> None:
    found = measured()
    assert found == MeasuredCeilings(
        device=None, ceilings=Ceilings(), problems=["torch finds no GPU"]
    )


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_node_gap_is_measured() -> None:
    found = measured()
    assert found.device == torch.cuda.get_device_name()
    assert found.problems == []
    assert found.ceilings.node_gap_ns is not None
