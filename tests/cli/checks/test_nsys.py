from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.cli.checks import nsys
from decodeprof.cli.checks.nsys import Installed, check_nsys, installed

GOOD = """#!/bin/sh
case "$1" in
  --version) echo "NVIDIA Nsight Systems version 2025.5.1.121-255136380782v0" ;;
  export) echo "usage: nsys export" ;;
esac
"""
COLLECTS_ONLY = """#!/bin/sh
case "$1" in
  --version) echo "NVIDIA Nsight Systems version 2025.3.2.0" ;;
  *) echo "Unrecognized command" >&2; exit 1 ;;
esac
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_whole_installation_works(tmp_path: Path) -> None:
    binary = program(tmp_path / "target-linux-x64" / "nsys", GOOD)
    program(tmp_path / "host-linux-x64" / "QdstrmImporter", "#!/bin/sh\n")
    (check,) = check_nsys([Installed(binary, on_path=True)])
    assert check.answer == "works"
    assert check.detail.startswith("2025.5.1.121-255136380782v0, on the PATH")


def test_a_link_on_the_path_leads_to_its_importer(tmp_path: Path) -> None:
    binary = program(tmp_path / "opt" / "target-linux-x64" / "nsys", GOOD)
    program(tmp_path / "opt" / "host-linux-x64" / "QdstrmImporter", "#!/bin/sh\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nsys").symlink_to(binary)
    found = installed([f"{tmp_path}/opt/target-linux-*/nsys"], search_path=str(tmp_path / "bin"))
    assert found == [Installed(tmp_path / "bin" / "nsys", on_path=True)]
    assert check_nsys(found)[0].answer == "works"


def test_a_copy_that_collects_and_cannot_import_does_not_work(tmp_path: Path) -> None:
    binary = program(tmp_path / "2025.3" / "host" / "target-linux-x64" / "nsys", COLLECTS_ONLY)
    found = installed(
        [f"{tmp_path}/*/host/target-linux-*/nsys"], search_path=str(tmp_path / "empty")
    )
    assert found == [Installed(binary, on_path=False)]
    (check,) = check_nsys(found)
    assert check.answer == "does not"
    assert "its importer is missing" in check.detail
    assert "not on the PATH" in check.detail


def test_half_an_installation_cannot_be_told(tmp_path: Path) -> None:
    binary = program(tmp_path / "target-linux-x64" / "nsys", GOOD)
    (check,) = check_nsys([Installed(binary, on_path=True)])
    assert check.answer == "cannot tell"


def test_none_at_all(tmp_path: Path) -> None:
    found = installed([f"{tmp_path}/*/nsys"], search_path=str(tmp_path))
    assert found == []
    (check,) = check_nsys(found)
    assert (check.answer, check.hint) == ("does not", "install Nsight Systems")


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    binary = program(tmp_path / "nsys", "#!/no/such/shell\n")
    (check,) = check_nsys([Installed(binary, on_path=True)])
    assert check.answer == "does not"
    assert "cannot be run" in check.detail


def test_a_program_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys, "TIMEOUT_S", 0.3)
    binary = program(tmp_path / "nsys", "#!/bin/sh\nexec sleep 60\n")
    (check,) = check_nsys([Installed(binary, on_path=True)])
    assert check.answer == "does not"
    assert "said nothing for 0.3 s" in check.detail
