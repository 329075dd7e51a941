from __future__ import annotations

import importlib.metadata

import msgspec
import pytest

from decodeprof.cli import group
from decodeprof.cli.checks.check import Check
from decodeprof.cli.doctor import check_packages
from decodeprof.cli.errors import run

NAMES = [
    "decodeprof", "Python", "packages", "torch", "CUDA", "CUPTI kernels", "sync-debug mode",
    "gpu_trace hooks", "nsys", "Perfetto export",
]  # fmt: skip


def test_doctor_answers_in_json_and_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(group, ["doctor", "--json"]) == 0
    checks = msgspec.json.decode(capsys.readouterr().out, type=list[Check])
    names = list(dict.fromkeys(check.name for check in checks))
    assert names == NAMES
    assert all(check.detail for check in checks)
    assert run(group, ["doctor", "--width", "100"]) == 0
    out = capsys.readouterr().out
    for check in checks:
        assert any(
            line.lstrip().startswith(check.name) and check.answer in line
            for line in out.splitlines()
        ), check.name


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    check = check_packages(["numpy", "no-such-package-here"])
    assert check.answer == "does not"
    assert check.hint == "pip install no-such-package-here"
    found = check_packages(["numpy"])
    assert found.detail == f"numpy {importlib.metadata.version('numpy')}"
