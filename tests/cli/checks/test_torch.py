from __future__ import annotations

import json
import sys

import pytest

from decodeprof.cli.checks.torch import Probed, check_torch, probe


def answers(probed: Probed) -> dict[str, str]:
    return {check.name: check.answer for check in check_torch(probed)}


def script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


TORCH = {"version": "2.11.0", "cuda": "13.0", "hip": None}
CUDA = {"devices": ["NVIDIA H200"], "driver": "580.95"}
ALL = {
    "torch": TORCH,
    "cuda": CUDA,
    "profiler": {"launches": 3, "kernels": 3},
    "sync_debug": 1,
    "gpu_trace": 1,
}


def test_all_works() -> None:
    assert set(answers(Probed(ALL)).values()) == {"works"}


def test_no_gpu_leaves_what_needs_one_untold() -> None:
    assert answers(Probed({"torch": TORCH, "cuda": None})) == {
        "torch": "works",
        "CUDA": "does not",
        "CUPTI kernels": "cannot tell",
        "sync-debug mode": "cannot tell",
        "gpu_trace hooks": "cannot tell",
    }


def test_launches_without_kernels_mean_that_cupti_does_not_work() -> None:
    probed = Probed({**ALL, "profiler": {"launches": 3, "kernels": 0}})
    check = next(check for check in check_torch(probed) if check.name == "CUPTI kernels")
    assert check.answer == "does not"
    assert check.detail == "torch.profiler saw 0 kernels of 3 launches"
    assert check.hint


def test_a_detector_that_misses_a_real_sync_does_not_work() -> None:
    assert answers(Probed({**ALL, "sync_debug": 0}))["sync-debug mode"] == "does not"


def test_an_error_is_the_answer_of_the_check_that_raised_it() -> None:
    values = {key: value for key, value in ALL.items() if key != "gpu_trace"}
    probed = Probed(values, {"gpu_trace": "AttributeError: no hooks"})
    check = next(check for check in check_torch(probed) if check.name == "gpu_trace hooks")
    assert (check.answer, check.detail) == ("does not", "AttributeError: no hooks")


def test_torch_that_is_not_installed_and_torch_that_is_broken() -> None:
    missing = Probed({}, {"torch": "ModuleNotFoundError: No module named 'torch'"})
    assert check_torch(missing)[0].hint == "pip install torch"
    broken = Probed({}, {"torch": "ImportError: libcudart.so.13"})
    assert check_torch(broken)[0].detail == "import failed: ImportError: libcudart.so.13"
    assert answers(missing)["CUDA"] == "cannot tell"


def test_a_crash_leaves_what_was_said_before_it() -> None:
    told = [
        {"check": "torch", "value": {"version": "2", "cuda": "13", "hip": None}},
        {"check": "cuda", "value": {"devices": ["D"], "driver": None}},
    ]
    lines = "\n".join(map(json.dumps, told))
    program = f"import os\nprint({lines!r}, flush=True)\nos.kill(os.getpid(), 11)"
    probed = probe(script(program))
    assert answers(probed)["CUDA"] == "works"
    check = next(check for check in check_torch(probed) if check.name == "CUPTI kernels")
    assert (check.answer, check.detail) == ("cannot tell", "it was killed by SIGSEGV")


def test_a_hang_ends() -> None:
    probed = probe(script("import time; time.sleep(60)"), timeout_s=0.3)
    assert probed.ended == "it was stopped after 0.3 s"
    assert answers(probed)["torch"] == "cannot tell"


def test_a_failure_gives_its_last_line() -> None:
    probed = probe(script("raise RuntimeError('no libc')"))
    assert probed.ended == "it left with code 1: RuntimeError: no libc"


def test_what_torch_prints_is_no_answer() -> None:
    probed = probe(script('print("USDT: start"); print(\'{"check": "cuda", "value": null}\')'))
    assert probed == Probed({"cuda": None})


def test_the_real_probe_answers_here() -> None:
    pytest.importorskip("torch")
    probed = probe()
    assert probed.ended == ""
    assert answers(probed)["torch"] == "works"
    assert "cuda" in probed.values or "cuda" in probed.errors
