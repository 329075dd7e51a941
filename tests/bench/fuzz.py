"""Does anything but a clear error come out of a damaged trace? Thousands of them are tried.

    DECODEPROF_TRACES=/path/to/traces python -m tests.bench.fuzz --inputs 5000

Seeds are stretches of real traces, those that ship and those of the folder that DECODEPROF_TRACES
names, in every layout. Each input is one with a few random changes of its bytes; it is analysed,
and its report and page are drawn. What may come out is a report or a `DecodeprofError`, in a few
seconds. Inputs on which anything else happened are kept in a folder. They are read in blocks of a
few kilobytes, as large files are in larger ones; once by the forms of events where that can be, and
once by the parser alone, which must find the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gzip
import json
import random
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from decodeprof.cli.pages import page_text
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import DecodeprofError
from decodeprof.ingest import torch_trace
from decodeprof.ingest.blocks import Surroundings, UnknownLayoutError, read_blocks
from decodeprof.ingest.byte_source import source_of
from decodeprof.ingest.gather import Rows
from decodeprof.ingest.kineto_lines import KinetoLines
from tests.traces import folder
from tests.write_kineto import LAYOUTS, Number, lay_out

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
EVENTS = 250
SLOW_S = 10.0
_ODD = (
    *(b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"0.000", b"null", b"true", b'""', b'"'),
    *(b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x00", b"\xff", b"\xed\xa0\x80", b"\n"),
    *(b"9223372036854775808", b"99999999999999999999.999", b"[[[[", b'{"ph": "X"}', b"},\n  {"),
    *(b"INFO:2026-01-01 00:00:00 1:1 a.cpp:1] x\n", b'"traceEvents": [', b"</script>", b"[red]"),
)


@dataclass(frozen=True)
class Outcome:
    """What came of one input."""

    kind: str
    """read | read, with caveats | refused | escaped | slow | two readings"""
    text: str
    seconds: float


def seeds() -> list[bytes]:
    """Stretches of real traces, as text."""
    traces = folder()
    places = [FIXTURES] if traces is None else [FIXTURES, traces / "torch", traces / "h200"]
    paths = sorted(path for place in places for path in place.rglob("*.json.gz"))
    return [seed for i, path in enumerate(paths) for seed in stretches(path, i)]


def stretches(path: Path, turn: int) -> list[bytes]:
    """The first events in time of a trace, and some of its middle, each in another layout."""
    try:
        whole = json.loads(gzip.decompress(path.read_bytes()), parse_float=Number)
    except (ValueError, OSError):  # Damaged already: it is no seed.
        return []
    events = whole if isinstance(whole, list) else whole.get("traceEvents", [])
    timed = [event for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    timed.sort(key=lambda event: float(event.get("ts") or 0))
    top: dict[str, Any] = {} if isinstance(whole, list) else dict(whole, traceEvents=None)
    top.pop("traceEvents", None)
    found = []
    for at, start in enumerate((0, len(timed) // 2)):
        layout = LAYOUTS[(turn + at) % len(LAYOUTS)]
        chosen = timed[start : start + EVENTS]
        found.append(lay_out(top, chosen, layout, bare_list=not top).encode("utf-8", "replace"))
    return found


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """The text with one to eight changes; sometimes packed, and damaged once more."""
    text = bytearray(seed)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(text)) if text else 0
        way = chance.randrange(7)
        if way == 0 and text:
            text[at] = chance.randrange(256)
        elif way == 1:
            del text[at : at + chance.choice((1, 3, 30, 3000))]
        elif way == 2:
            text[at:at] = chance.choice(_ODD)
        elif way == 3:
            text[at:at] = text[at : at + chance.choice((10, 400, 5000))]
        elif way == 4 and chance.random() < 0.2:
            del text[at:]
        elif way == 5:
            text[at : at + 40] = bytes(chance.randrange(256) for _ in range(40))
        else:
            _other_value(text, chance)
    if chance.random() < 0.1:
        packed = bytearray(gzip.compress(bytes(text), 1, mtime=0))
        at = chance.randrange(len(packed))
        if chance.random() < 0.5:
            del packed[at:]
        else:
            packed[at] ^= 1 << chance.randrange(8)
        return bytes(packed)
    return bytes(text)


def _other_value(text: bytearray, chance: random.Random) -> None:
    """Put an odd value behind a colon: what stays is JSON, often."""
    at = text.find(b": ", chance.randrange(len(text) or 1)) + 2
    ends = [end for end in (text.find(b",", at), text.find(b"\n", at)) if end > 0]
    if at > 1 and ends and min(ends) - at < 60:
        text[at : min(ends)] = chance.choice(_ODD)


def outcome(data: bytes, path: Path) -> Outcome:
    """Analyse an input and draw its report; nothing but our own errors may come out."""
    path.write_bytes(data)
    began = time.perf_counter()
    try:
        analyzed = analyze_path(path)
        page_text(analyzed)
        kind = "read, with caveats" if analyzed.evidence.trace.caveats else "read"
        text = ""
    except DecodeprofError as error:
        kind, text = "refused", error.what.partition("`")[2].partition("`")[2].strip()
        if not error.what:
            kind, text = "escaped", "an error that says nothing"
    except Exception:  # What is looked for: it is reported, with its traceback.
        kind, text = "escaped", traceback.format_exc()
    seconds = time.perf_counter() - began
    return Outcome("slow" if seconds > SLOW_S and kind != "escaped" else kind, text, seconds)


def two_readings(data: bytes, *, block_bytes: int) -> list[str]:
    """In what the fast way of reading differs from the parser; nothing, if all is well."""
    by_form, by_parser = (_reading(data, block_bytes, way) for way in (KinetoLines, None))
    return [key for key in by_form.keys() | by_parser if by_form.get(key) != by_parser.get(key)]


def _reading(data: bytes, block_bytes: int, way: type[KinetoLines] | None) -> dict[str, Any]:
    rows, around = Rows(), Surroundings()
    source = source_of(data)
    try:
        reader = None if way is None else way(rows)
        for events in read_blocks(source, around, reader=reader, block_bytes=block_bytes):
            rows.add(events)
    except (UnknownLayoutError, DecodeprofError) as error:
        return {"error": repr(error)}
    finally:
        source.close()
    found: dict[str, Any] = {
        "losses": repr(around.losses), "dropped": +rows.dropped, "events": rows.events,
        "overhead": sorted(rows.overhead), "tail": around.tail,
    }  # fmt: skip
    named = {"name": rows.names.all(), "thread": rows.threads.all(), "detail": rows.details.all()}
    for name, columns in rows.tables().items():
        table = columns.build(origin_ns=0)
        for field in dataclasses.fields(table):
            column = getattr(table, field.name).tolist()
            texts = named.get(field.name)
            found[f"{name}.{field.name}"] = (
                column if texts is None else [texts[i] if i >= 0 else None for i in column]
            )
    return found


def main() -> None:
    """Try so many inputs and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    parser.add_argument("--block-bytes", type=int, default=8192)
    parser.add_argument("--table", type=Path, help="a file to write the table to")
    options = parser.parse_args()
    torch_trace.FORMS_WORTH_BYTES = 0
    torch_trace.parse_source = functools.partial(  # type: ignore[assignment]
        torch_trace.parse_source, block_bytes=options.block_bytes
    )
    texts = seeds()
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(options.seed, options.seed + options.inputs):
            chance = random.Random(number)
            data = mutated(chance.choice(texts), chance)
            one = outcome(data, Path(temporary) / "trace.json")
            differ = two_readings(data, block_bytes=options.block_bytes)
            if differ:
                one = Outcome("two readings", ", ".join(differ), one.seconds)
            kinds[one.kind] += 1
            slowest = max(slowest, one.seconds)
            if one.kind == "refused":
                reasons[one.text] += 1
            if one.kind in ("escaped", "slow", "two readings"):
                options.keep.mkdir(exist_ok=True)
                (options.keep / f"{number}.json").write_bytes(data)
                last = one.text.strip().splitlines()[-3:]
                print(number, one.kind, f"{one.seconds:.1f} s", *last, sep="\n  ", flush=True)
    table = Table("came out", "inputs", title=f"{options.inputs:,} inputs of {len(texts)} seeds")
    for kind, count in kinds.most_common():
        table.add_row(kind, f"{count:,}")
    for reason, count in reasons.most_common():
        table.add_row(f"refused: {reason}", f"{count:,}")
    table.add_row("slowest", f"{slowest:.1f} s")
    Console(width=110).print(table)
    if options.table is not None:
        with options.table.open("w", encoding="utf-8") as file:
            Console(width=110, file=file, color_system=None).print(table)


if __name__ == "__main__":
    main()
