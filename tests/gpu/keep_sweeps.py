"""Keep what sweep_h200.py brought back: fixtures/sweeps/<part>, with where it came from.

    PYTHONPATH=. python tests/gpu/keep_sweeps.py DIR [--part toy …] [--note TEXT]

DIR is the folder of the run, unpacked. Of the traces, what nothing reads is cut away.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from fixtures.cut import cut_trace

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sweeps"
SHOWS = {
    "toy": "32 × (matmul, SiLU, add) over the batch size, to 16,384 rows",
    "batch06": "a decode step of the 0.6b shape over the batch size, to where the device overtakes "
    "the host",
    "batch8x4": "a decode step of the 8b shape, cut to 4 layers, over the batch size",
    "context": "a decode step of the 0.6b shape at batch 1 over the context",
    "prompt": "a prompt pass of the 0.6b shape over the prompt's length",
    "graph": "a decode step of the 0.6b shape with fused kernels over the batch size, at a context "
    "of 1,024: from kernel-bound to memory-bound",
    "speculative": "rounds of speculative decoding of the 0.6b shape, launched and as one graph",
}
FILES = ("sweep.jsonl", "rounds.jsonl", "ceilings.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", action="append", choices=sorted(SHOWS))
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    for part in arguments.part or list(SHOWS):
        source = arguments.folder / part
        if not any((source / name).is_file() for name in FILES[:2]):
            print(f"{part}: nothing came back")
            continue
        keep(source, FIXTURES / part, part, note=arguments.note)


def keep(source: Path, target: Path, part: str, *, note: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.name in FILES:
            shutil.copyfile(path, target / path.name)
        elif path.name.endswith(".json.gz"):
            (target / path.name).write_bytes(cut_trace(path, cut_ns=None, first_ns=0)[0])
    first = next(target / name for name in FILES[:2] if (target / name).is_file())
    about = json.loads(first.read_text().splitlines()[0])
    lines = {
        "shows": SHOWS[part],
        "device": about["device"],
        "torch": about["torch"],
        "made_by": f"tests/gpu/sweep_h200.py --part {part}",
        first.name.replace(".", "_"): "one message a line, as each point ended; times in ns",
        "ceilings_json": "what the same GPU reached a moment earlier",
        "host": note,
    }
    if first.name == FILES[0]:
        lines |= {
            "step_ns": "wall time of several steps ÷ their number, without a profiler; eager and "
            "graph in turn, after 1.2 s of load",
            "traces": "cut by fixtures/cut.py; of a point's steps the first and last are not "
            "steady",
        }
    else:
        lines["round_ns"] = (
            "wall time of several rounds ÷ their number, without a profiler, after 1.2 s of load"
        )
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items() if value)
    (target / "PROVENANCE.toml").write_text(text)
    print(f"{part}: {sum(path.stat().st_size for path in target.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
