"""Reports are exported by programs that are there; small stand-ins keep to their argument lists.

The stand-ins show how decodeprof calls the programs and what it makes of their failures. None of
them imports anything: the export that they hand over is synthetic.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import InputError
from decodeprof.ingest import nsys_convert
from decodeprof.ingest.read import read_trace
from tests import write_nsys
from tests.scenarios import decode_loop
from tests.write_nsys import as_nsys_sees

EXPORTS = """#!/bin/sh
echo "$0 $*" >> "{log}"
test "$1 $2 $3 $4" = "export --type sqlite --output" || exit 9
cp "{export}" "$5"
"""
IMPORTS = """#!/bin/sh
echo "$0 $*" >> "{log}"
test "$1" = -i && test "$3" = -o || exit 9
cp "$2" "$4"
"""


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH beside the system's own; no installer's folder is looked in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(nsys_convert.nsys, "installed", lambda: on_path(folder))
    return folder


def on_path(folder: Path) -> list[nsys_convert.nsys.Installed]:
    program = folder / "nsys"
    return [nsys_convert.nsys.Installed(program, on_path=True)] if program.exists() else []


def program(folder: Path, name: str, text: str, **values: object) -> Path:
    path = folder / name
    path.write_text(text.format(log=folder / "log", **values))
    path.chmod(0o755)
    return path


def report(folder: Path, suffix: str) -> Path:
    path = folder / f"my report{suffix}"
    path.write_bytes(b"not read by decodeprof")
    return path


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write_nsys.write(tmp_path / "made.sqlite", as_nsys_sees(decode_loop().build()))


@pytest.mark.parametrize("suffix", [".nsys-rep", ".qdrep"])
def test_a_report_is_exported_and_read(
    tmp_path: Path, bin_folder: Path, export: Path, suffix: str
) -> None:
    nsys = program(bin_folder, "nsys", EXPORTS, export=export)
    path = report(tmp_path, suffix)
    there = sorted(os.listdir(tmp_path))
    trace = read_trace(path)
    assert trace.name == path.name
    assert len(trace.device) == len(read_trace(export).device)
    (call,) = (bin_folder / "log").read_text().splitlines()
    assert call.startswith(f"{nsys} export --type sqlite --output ")
    assert call.endswith(f"my report.sqlite {path}")
    assert sorted(os.listdir(tmp_path)) == there


def test_a_collected_file_is_imported_first(tmp_path: Path, bin_folder: Path, export: Path) -> None:
    program(bin_folder, "nsys", EXPORTS, export=export)
    program(bin_folder, "QdstrmImporter", IMPORTS)
    assert len(read_trace(report(tmp_path, ".qdstrm")).device)
    first, second = (bin_folder / "log").read_text().splitlines()
    assert "QdstrmImporter -i " in first
    assert "nsys export" in second


def test_without_nsys_the_command_for_another_machine_is_given(
    tmp_path: Path, bin_folder: Path
) -> None:
    del bin_folder
    path = report(tmp_path, ".nsys-rep")
    with pytest.raises(InputError) as caught:
        analyze_path(path)
    assert caught.value.what == (
        "`my report.nsys-rep` must be exported first, and there is no `nsys` here"
    )
    assert "nsys export --type sqlite --output" in caught.value.hint
    assert "decodeprof analyze 'my report.sqlite'" in caught.value.hint


def test_without_an_importer_both_commands_are_given(tmp_path: Path, bin_folder: Path) -> None:
    program(bin_folder, "nsys", EXPORTS, export="nothing")
    with pytest.raises(InputError) as caught:
        read_trace(report(tmp_path, ".qdstrm"))
    assert "no importer is here" in caught.value.what
    assert "QdstrmImporter -i 'my report.qdstrm' -o 'my report.nsys-rep'" in caught.value.hint
    assert "nsys export --type sqlite" in caught.value.hint


def test_the_importer_must_be_of_the_collected_files_version(
    tmp_path: Path, bin_folder: Path
) -> None:
    program(bin_folder, "nsys", EXPORTS, export="nothing")
    said = "Qdstrm version 2025.3.1.90-1 is not supported."
    program(bin_folder, "QdstrmImporter", f"#!/bin/sh\necho '{said}'\nexit 2\n")
    path = report(tmp_path, ".qdstrm")
    path.write_bytes(b"U3w[END]NVIDIA Nsight Systems Stream 2025.3.1.90-253135822126v0!\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert said in caught.value.why
    assert "all of Nsight Systems, of version 2025.3.1.90 and no other" in caught.value.hint


def test_an_empty_report_is_called_so(tmp_path: Path, bin_folder: Path) -> None:
    del bin_folder
    path = tmp_path / "run.nsys-rep"
    path.touch()
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.what == "`run.nsys-rep` is empty"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#!/bin/sh\necho 'unsupported report version' >&2\nexit 1\n", "left with code 1"),
        ("#!/bin/sh\nexit 0\n", "left with code 0, wrote nothing"),
        ("not a program", "cannot be run"),
    ],
)
def test_an_export_that_fails_says_what_was_said(
    tmp_path: Path, bin_folder: Path, text: str, says: str
) -> None:
    program(bin_folder, "nsys", text)
    path = report(tmp_path, ".nsys-rep")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.what == "`my report.nsys-rep` could not be exported"
    assert says in caught.value.why
    assert path.read_bytes() == b"not read by decodeprof"


def test_an_export_for_which_there_is_no_room_says_where_it_goes(
    tmp_path: Path, bin_folder: Path
) -> None:
    program(bin_folder, "nsys", "#!/bin/sh\necho 'write failed: No space left on device'\nexit 1\n")
    with pytest.raises(InputError) as caught:
        read_trace(report(tmp_path, ".nsys-rep"))
    assert "No space left on device" in caught.value.why
    assert "TMPDIR" in caught.value.hint


def test_an_export_that_came_out_cut_short_is_told_of_the_report(
    tmp_path: Path, bin_folder: Path, export: Path
) -> None:
    export.write_bytes(export.read_bytes()[:9000])
    program(bin_folder, "nsys", EXPORTS, export=export)
    with pytest.raises(InputError) as caught:
        read_trace(report(tmp_path, ".nsys-rep"))
    assert caught.value.what == "what `nsys export` made of `my report.nsys-rep` cannot be read"
    assert "is damaged or cut short" in caught.value.why
    assert "nsys export --type sqlite 'my report.nsys-rep'" in caught.value.hint
