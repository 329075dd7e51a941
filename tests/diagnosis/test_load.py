"""What is refused, and is the reason the true one?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from decodeprof.diagnosis.load import load
from decodeprof.errors import InputError
from tests.build import TraceBuilder
from tests.scenarios import decode_loop
from tests.write_kineto import MODERN, events_of, write

ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


def written(path: Path, *, without: set[str], end: str = "]}") -> Path:
    """The decode loop's trace without the events of some categories."""
    events = [e for e in events_of(decode_loop().build(), MODERN) if e.get("cat") not in without]
    path.write_text('{"traceEvents": ' + json.dumps(events).removesuffix("]") + end)
    return path


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load(path)
    return caught.value


@pytest.mark.parametrize(
    ("without", "seen"),
    [(ON_DEVICE, "not one activity on a device"), ({"kernel"}, "copies and sets alone")],
)
def test_launches_without_kernels_are_the_profilers_fault(
    tmp_path: Path, without: set[str], seen: str
) -> None:
    error = refused(written(tmp_path / "trace.json", without=without))
    assert error.what == "`trace.json` holds launches but no kernels"
    assert seen in error.why
    assert "CUPTI" in error.why


def test_what_a_damaged_file_lacks_is_not_the_profilers_fault(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.json", without=ON_DEVICE)
    assert "CUPTI" in refused(whole).why
    error = refused(written(tmp_path / "trace.json", without=ON_DEVICE, end=""))
    assert error.what == "`trace.json` is damaged, and what is left of it holds no kernels"
    assert "the file ends before its list of events does" in error.why


def test_a_packed_file_that_ends_before_its_kernels_is_called_cut_short(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.json", without=ON_DEVICE)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(whole.read_bytes(), mtime=0)[:-200])
    error = refused(path)
    assert "is damaged" in error.what
    assert "the gzip data is cut short" in error.why
    assert "CPU activity only" not in error.why


def test_a_run_on_the_cpu_alone_is_called_so(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("aten::mm"):
        b.work(1_000)
    error = refused(write(tmp_path / "trace.json", b.build()))
    assert error.what == "`trace.json` holds no GPU activity"
    assert "CPU activity only" in error.why


def test_a_trace_of_copies_that_launched_nothing_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", without={"kernel", "cuda_runtime", "cuda_driver"})
    assert len(load(path).trace.device) > 0


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_how_much_a_packed_file_lost_is_not_guessed(tmp_path: Path, share: float) -> None:
    packed = write(tmp_path / "whole.json.gz", decode_loop().build()).read_bytes()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed[: int(len(packed) * share)])
    cut, rest, *_ = load(path).trace.caveats
    assert cut == "the gzip data is cut short"
    assert rest.startswith("the file ends before its list of events does")
    assert "how much it is cannot be told" in rest
