"""A real `diagnose --nsys` on this GPU: what was told, and which file was kept?

    python tests/gpu/nsys_without_importer.py --out FILE.tar.gz [--loop eager] [--nsys PROGRAM]

Runs a small loop under the `nsys` of this machine, or under the one that is named. A copy without
importer collects and makes no report; then the pass must say so and keep the .qdstrm. A whole one
makes the export, and the table of sources is printed. Exit code 0: one of the two happened.

The archive holds `story.json` (what nsys said and left, and what was made of it: the fixture of
`fixtures/nsys_without_importer`) and each recording without the files that nsys wrote itself, which
are large and tell of the machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from decodeprof.capture import nsys as nsys_pass
from decodeprof.capture.nsys_story import Ended
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.hardware.nsys import importer_of, installed
from decodeprof.recording import NSYS_FILE, read_recording
from decodeprof.report.agreement import agreement_section
from decodeprof.report.blocks import View, line
from decodeprof.report.terminal import text

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "tests" / "capture" / "scripts" / "on_gpu.py"
LOOPS = ("eager", "graphed")
STORY_FILE = "story.json"
TIMEOUT_S = 480.0
"""The recording before the nsys pass took 100 s beside six busy processes, which left it 21 s."""
LARGEST_KEPT_BYTES = 6 * 2**20
"""Compressed; larger files stay on the machine: what is brought back is small."""
_RAW = (".qdstrm", ".nsys-rep", ".qdrep")
_ENDED = "DECODEPROF_TEST_NSYS_ENDED"
_LAST_LETTERS = 4_000
"""Of what a command printed."""


def main() -> int:
    """Run the loops, print what was told, write what is worth keeping."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the archive of the results")
    parser.add_argument("--nsys", type=Path, help="the nsys to use; by default the machine's own")
    parser.add_argument("--loop", action="append", choices=LOOPS, help="by default eager alone")
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_S, help=f"seconds a loop, {TIMEOUT_S:g} by default"
    )
    options = parser.parse_args()
    # The recorder's processes take their modules from here, installed or not.
    os.environ["PYTHONPATH"] = str(ROOT)
    if options.nsys is not None:
        folder = str(options.nsys.resolve().parent)
        os.environ["PATH"] = os.pathsep.join([folder, os.environ["PATH"]])
    programs = [_program(copy.path) for copy in installed()]
    print(json.dumps(programs, indent=1))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        loops = [_loop(name, work, options.timeout) for name in options.loop or LOOPS[:1]]
        story = {"programs": programs, "loops": loops}
        # Where the run lay is the machine's affair.
        told = json.dumps(story, indent=1).replace(str(work), "runs").replace(str(ROOT), "checkout")
        (work / STORY_FILE).write_text(told + "\n")
        keep(work, options.out)
    return 0 if all(each["as_expected"] for each in loops) else 1


def _program(path: Path) -> dict[str, object]:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    importer = importer_of(path)
    return {
        "path": str(path),
        "version": done.stdout.strip(),
        "importer": str(importer) if importer else None,
    }


def _loop(name: str, work: Path, timeout_s: float) -> dict[str, Any]:
    recording = work / name
    command = [
        *(sys.executable, str(Path(__file__)), "as-command"),
        *("diagnose", f"{TARGET}:{name}", "--nsys", "--budget", "1"),
        *("--timeout", f"{timeout_s:g}", "--out", str(recording)),
    ]
    ended = work / "ended.json"
    began = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, _ENDED: str(ended)},
    )
    told: dict[str, Any] = {
        "loop": name,
        "seconds": round(time.monotonic() - began, 1),
        "exit_code": done.returncode,
        "stderr": done.stderr[-_LAST_LETTERS:],
        "as_expected": False,
    }
    if not done.returncode:
        told |= _recorded(recording, name)
    if ended.is_file():
        told["ended"] = json.loads(ended.read_text())
        ended.unlink()
    print(json.dumps(told, indent=1))
    return told


def _recorded(directory: Path, name: str) -> dict[str, Any]:
    """What the recording and its report say of the pass, and of all the others."""
    recording = read_recording(directory)
    (found,) = (each for each in recording.passes if each.name == "nsys")
    files = {path.name: path.stat().st_size for path in sorted(directory.glob("nsys*"))}
    collected = next((path for path in directory.glob("*.qdstrm")), None)
    diagnosis = analyze_path(directory).diagnosis
    section = agreement_section(diagnosis)
    table = text(View(line(name), (section,) if section else ()), width=100)
    print(table)
    kept = "importer is missing" in found.reason and collected is not None
    return {
        "device": recording.device.name if recording.device else None,
        "torch": recording.environment.torch,
        "driver": recording.environment.driver,
        "passes": {each.name: each.status for each in recording.passes},
        "pass_seconds": found.seconds,
        "reason": found.reason,
        "files": files,
        "first_line": _first_line(collected) if collected else None,
        "of_the_collected_file": _analyzed(collected) if collected else None,
        "verdict": diagnosis.verdict.sentence,
        "caveats": diagnosis.caveats,
        "agreement": table.splitlines(),
        "as_expected": (found.status == "done" and NSYS_FILE in files) or kept,
    }


def _first_line(collected: Path) -> str:
    with collected.open("rb") as file:
        start = file.read(256)
    return start.partition(b"\n")[0].decode(errors="replace")


def _analyzed(collected: Path) -> dict[str, object]:
    """What `decodeprof analyze` says of a file that nothing here can import."""
    command = [sys.executable, "-m", "decodeprof", "analyze", str(collected), "--no-html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"exit_code": done.returncode, "stderr": done.stderr[-_LAST_LETTERS:]}


def as_command() -> None:
    """The command line itself, which also leaves how nsys ended: its words are in no recording."""
    tell = nsys_pass.tell

    def told(ended: Ended | None, out: Path) -> Any:
        if ended is not None:
            plain = dataclasses.asdict(ended)
            plain["failed"] = None if ended.failed is None else ended.failed.what
            Path(os.environ[_ENDED]).write_text(json.dumps(plain | {"nsys": ended.nsys.name}))
        return tell(ended, out)

    nsys_pass.tell = told
    from decodeprof.__main__ import main as command_line

    command_line()


def keep(work: Path, out: Path) -> None:
    """Pack what is worth keeping: no file that nsys wrote itself, none that is too large."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for path in sorted(work.rglob("*")):
        if path.is_file() and (path.suffix in _RAW or not _fits(path)):
            print(f"{path.relative_to(work)} is left behind: {path.stat().st_size:,} bytes")
            path.unlink()
    with tarfile.open(out, "w:gz") as archive:
        archive.add(work, arcname="nsys")
    print(f"{out.name}: {out.stat().st_size:,} bytes")


def _fits(path: Path) -> bool:
    compressor, size = zlib.compressobj(1), 0
    with path.open("rb") as file:
        while size < LARGEST_KEPT_BYTES and (data := file.read(1 << 20)):
            size += len(compressor.compress(data))
    return size < LARGEST_KEPT_BYTES


if __name__ == "__main__":
    if sys.argv[1:2] == ["as-command"]:
        del sys.argv[1]
        as_command()
    raise SystemExit(main())
