"""What a real nsys without importer said and left on an H200, told again by the code of today."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from decodeprof.capture.nsys_story import Ended, tell
from decodeprof.recording import RECORDING_FILE, write_recording
from tests.diagnosis.cases import recording
from tests.gpu.nsys_without_importer import STORY_FILE, keep

STORY = Path(__file__).parents[2] / "fixtures" / "nsys_without_importer" / STORY_FILE


def test_what_is_packed_is_small_and_holds_nothing_of_nsyss_own(tmp_path: Path) -> None:
    run = tmp_path / "work" / "eager"
    run.mkdir(parents=True)
    write_recording(run, recording())
    (run.parent / STORY_FILE).write_text("{}")
    for name in ("nsys.qdstrm", "nsys.nsys-rep"):
        with (run / name).open("wb") as file:
            file.truncate(1 << 30)
    out = tmp_path / "new" / "out.tar.gz"
    keep(run.parent, out)
    with tarfile.open(out) as archive:
        names = {member.name for member in archive.getmembers() if member.isfile()}
    assert names == {f"nsys/{STORY_FILE}", f"nsys/eager/{RECORDING_FILE}"}
    assert out.stat().st_size < 100_000


@pytest.mark.skipif(not STORY.is_file(), reason="no run of nsys on a GPU in this checkout")
def test_its_own_words_are_told_as_what_they_were(tmp_path: Path) -> None:
    story: dict[str, Any] = json.loads(STORY.read_text())
    assert [program["importer"] for program in story["programs"]] == [None]
    for loop in story["loops"]:
        ended, files = loop["ended"], loop["files"]
        out = tmp_path / loop["loop"]
        out.mkdir()
        for name, size in files.items():
            with (out / name).open("wb") as file:
                file.write(loop["first_line"].encode() + b"\n")
                file.truncate(size)
        found = tell(Ended(**{**ended, "nsys": Path(ended["nsys"]), "failed": None}), out)
        assert found.status == "failed"
        assert "its importer is missing; it left with code 0" in found.reason
        assert "QdstrmImporter -i nsys.qdstrm" in found.reason
        assert ended["finished"]
        assert list(files) == ["nsys.qdstrm"]


@pytest.mark.skipif(not STORY.is_file(), reason="no run of nsys on a GPU in this checkout")
def test_the_rest_of_the_recording_stood() -> None:
    for loop in json.loads(STORY.read_text())["loops"]:
        failed = [name for name, status in loop["passes"].items() if status == "failed"]
        assert failed == ["nsys"]
        assert loop["exit_code"] == 0
        assert loop["verdict"]
        assert any(
            text.startswith("The nsys pass failed: ") and "`nsys.qdstrm` (2.17 GB)" in text
            for text in loop["caveats"]
        )
        of_the_file = loop["of_the_collected_file"]
        assert of_the_file["exit_code"] == 1
        assert "was collected but never imported" in of_the_file["stderr"]
