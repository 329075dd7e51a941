"""A real `diagnose --nsys` on this GPU: what was told, and which file was kept?

    python tests/gpu/nsys_without_importer.py --out FILE.tar.gz [--loop eager] [--nsys PROGRAM]

Runs a small loop under the `nsys` of this machine, or under the one that is named. A copy without
importer collects and makes no report; then the pass must say so and keep the .qdstrm. A whole one
makes the export, and the table of sources is printed. Exit code 0: one of the two happened.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.hardware.nsys import importer_of, installed
from decodeprof.recording import NSYS_FILE, read_recording
from decodeprof.report.agreement import agreement_section
from decodeprof.report.blocks import View, line
from decodeprof.report.terminal import text

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "tests" / "capture" / "scripts" / "on_gpu.py"
LOOPS = ("eager", "graphed")
LARGEST_KEPT_BYTES = 6 * 2**20
"""Compressed; larger files stay on the machine: what is brought back is small."""


def main() -> int:
    """Run both loops, print what was told, write what is worth keeping."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the archive of the results")
    parser.add_argument("--nsys", type=Path, help="the nsys to use; by default the machine's own")
    parser.add_argument("--loop", action="append", choices=LOOPS, help="by default eager alone")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for each loop")
    options = parser.parse_args()
    # The recorder's processes take their modules from here, installed or not.
    os.environ["PYTHONPATH"] = str(ROOT)
    if options.nsys is not None:
        folder = str(options.nsys.resolve().parent)
        os.environ["PATH"] = os.pathsep.join([folder, os.environ["PATH"]])
    copies = installed()
    for copy in copies:
        done = subprocess.run([copy.path, "--version"], capture_output=True, text=True, check=False)
        print(f"{copy.path}: {done.stdout.strip()}; importer: {importer_of(copy.path)}")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        told = [_loop(name, work, options.timeout) for name in options.loop or LOOPS[:1]]
        (work / "nsys.json").write_text(json.dumps(told, indent=1) + "\n")
        _keep(work, options.out)
    return 0 if all(each["as_expected"] for each in told) else 1


def _loop(name: str, work: Path, timeout_s: float) -> dict[str, object]:
    recording = work / name
    command = [
        *(sys.executable, "-m", "decodeprof", "diagnose", f"{TARGET}:{name}", "--nsys"),
        *("--budget", "1", "--timeout", f"{timeout_s:g}", "--out", str(recording)),
    ]
    began = time.monotonic()
    # The terminal's report of a small loop; the pass is told in its part on what was measured.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    print(f"\n== {name}: diagnose --nsys, {seconds:.1f} s, exit code {done.returncode}")
    if done.returncode:
        print(done.stderr)
        return {"loop": name, "exit_code": done.returncode, "as_expected": False}
    (found,) = (each for each in read_recording(recording).passes if each.name == "nsys")
    files = {path.name: path.stat().st_size for path in sorted(recording.glob("nsys*"))}
    print(f"pass nsys: {found.status}, {found.seconds:.1f} s\n{found.reason}\nfiles: {files}")
    diagnosis = analyze_path(recording).diagnosis
    section = agreement_section(diagnosis)
    print(text(View(line(name), (section,) if section else ()), width=100))
    collected = any(file.endswith(".qdstrm") for file in files)
    whole = found.status == "done" and NSYS_FILE in files
    kept = "importer is missing" in found.reason and collected
    return {
        "loop": name,
        "exit_code": done.returncode,
        "status": found.status,
        "reason": found.reason,
        "seconds": found.seconds,
        "files": files,
        "verdict": diagnosis.verdict.sentence,
        "as_expected": whole or kept,
    }


def _keep(work: Path, out: Path) -> None:
    """Pack the recordings, without what is too large to bring back."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for path in sorted(work.rglob("*")):
        if path.is_file() and not _fits(path):
            print(f"{path.relative_to(work)} is left behind: {path.stat().st_size:,} bytes")
            path.unlink()
    with tarfile.open(out, "w:gz") as archive:
        archive.add(work, arcname="nsys")
    print(f"{out.name}: {out.stat().st_size:,} bytes")


def _fits(path: Path) -> bool:
    # Zeroes make most of a collected file: what counts is its compressed size.
    compressor, size = zlib.compressobj(1), 0
    with path.open("rb") as file:
        while size < LARGEST_KEPT_BYTES and (data := file.read(1 << 20)):
            size += len(compressor.compress(data))
    return size < LARGEST_KEPT_BYTES


if __name__ == "__main__":
    raise SystemExit(main())
