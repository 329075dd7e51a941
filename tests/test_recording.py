"""A description that contradicts itself is damaged, and is not read on."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decodeprof.errors import InputError
from decodeprof.recording import read_recording

FIXTURE = Path(__file__).parents[1] / "fixtures" / "plain_0p6b" / "recording.json"


def beyond_its_sites(found: dict[str, Any]) -> None:
    found["sync_debug"]["events"][0][1] = len(found["sync_debug"]["sites"])


def before_its_sites(found: dict[str, Any]) -> None:
    found["gpu_trace"]["events"][-1][1] = -1


def no_queue(found: dict[str, Any]) -> None:
    found["ceilings"]["queue_depth"] = 0


def endless(found: dict[str, Any]) -> None:
    found["gpu_trace"]["steps"] = 10**18


@pytest.mark.parametrize("spoil", [beyond_its_sites, before_its_sites, no_queue, endless])
def test_a_contradiction_is_damage(spoil: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    shutil.copy(FIXTURE, tmp_path)
    assert read_recording(tmp_path).sync_debug is not None
    found = json.loads(FIXTURE.read_text())
    spoil(found)
    (tmp_path / FIXTURE.name).write_text(json.dumps(found))
    with pytest.raises(InputError, match=re.escape("is damaged")):
        read_recording(tmp_path)
