"""What does a sweep's directory hold, and how is it read back?

    sweep.jsonl      first what is swept and where, then one message a line, as each point ended
    ceilings.json    what the GPU can do at best; not there on a CPU
    sweep.json       the judged sweep
    sweep.csv        its points
    batch_1.json.gz  a trace of the first point with shapes, from which the others are foreseen

A sweep of a user's own target holds a recording for each point instead, in a folder named by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from decodeprof.errors import InputError, UsageError
from decodeprof.model.sweep import Measured

POINTS_FILE = "sweep.jsonl"
CEILINGS_FILE = "ceilings.json"
SWEEP_FILE = "sweep.json"
CSV_FILE = "sweep.csv"
BATCH = "batch"
"""The axis along which an operand's first dimension grows."""

Message = dict[str, Any]


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a device's ceilings that a sweep is held against."""

    node_gap_ns: int | None = None
    read_bytes_per_s: float | None = None
    matmul_flops_per_s: float | None = None
    strided_elements_per_s: float | None = None


class _CeilingsFile(msgspec.Struct, frozen=True, kw_only=True):
    device: str | None = None
    ceilings: Rates = Rates()
    problems: list[str] = []


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: what is swept, and on what."""

    device: str | None = None
    torch: str = ""
    dtype: str = ""
    spec: dict[str, Any] = {}
    """Of the reference decoder or the toy; empty for a target."""
    target: str = ""
    axis: str = ""
    """Of a target: the argument that varies."""
    values: list[int] = []
    """Of a target: what was asked for, as `spec` has it otherwise."""
    settings: list[str] = []
    """Of a target: its other arguments and options, in the words of the command line."""

    def asked(self) -> list[int]:
        """The values of the points that were to be measured."""
        return self.values or [int(value) for value in self.spec.get("values", ())]


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep's directory, read."""

    about: About
    messages: list[Message]

    def done(self, *, failed_before: int = 0) -> dict[int, set[str]]:
        """By value, the kinds of message about it.

        Args:
            failed_before: of so many messages at the begin, those of failures do not count: their
                points are tried again.
        """
        kinds: dict[int, set[str]] = {}
        for index, message in enumerate(self.messages):
            if message["kind"] != "failed" or index >= failed_before:
                kinds.setdefault(message["value"], set()).add(message["kind"])
        return kinds


def trace_file(directory: Path, axis: str, value: int) -> Path:
    """Where the trace of a point lies, if one was kept."""
    return directory / f"{axis}_{value}.json.gz"


def refuse_other_files(out: Path) -> None:
    """Refuse to begin a sweep in the place of something else.

    Raises:
        UsageError: `out` is a file, or a directory that is not empty.
    """
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() or out.is_symlink():
        raise UsageError(
            f"`{out}` exists and holds no sweep",
            why="a sweep never writes among other files",
            hint="name a new directory with `--out`, or leave `--out` out",
        )


def make_directory(out: Path) -> None:
    """Make a sweep's directory, where it is not there yet.

    Raises:
        UsageError: there can be none of that name.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the directory `{out}`",
            why=str(error.strerror),
            hint="name another one with `--out`",
        ) from None


def begun(out: Path) -> bool:
    """Whether a sweep was begun in `out`: a first line that was cut off while written is none."""
    path = out / POINTS_FILE
    if not path.is_file():
        return False
    data = path.read_bytes()
    return not _cut_at_once(data)


def _cut_at_once(data: bytes) -> bool:
    """Nothing, or the begin of a first line and no more."""
    return not data or (data.startswith(b"{") and b"\n" not in data)


def read(directory: Path) -> Stored:
    """Read what was measured; a last line that was cut off is left out.

    Raises:
        InputError: there is no sweep, a line of it is damaged, or it lacks the first one.
    """
    path = directory / POINTS_FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"`{directory}` holds no sweep",
            why=f"{POINTS_FILE}: {error.strerror}",
            hint="decodeprof sweep --vary batch=1,2,4,8",
        ) from None
    if _cut_at_once(data):
        return Stored(about=About(), messages=[])
    lines, messages = data.splitlines(), []
    for number, line in enumerate(lines, 1):
        try:
            messages.append(msgspec.json.decode(line, type=Message))
        except msgspec.DecodeError as error:
            if number == len(lines) and number > 1:
                break  # The run was cut off while it wrote this line; the point is measured again.
            raise InputError(f"`{path}` is damaged", why=f"line {number}: {error}") from None
    try:
        about = msgspec.convert(messages[0], About)
        for message in messages[1:]:
            if not isinstance(message["value"], int) or not isinstance(message["kind"], str):
                raise TypeError("a value is a whole number, and a kind is text")
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise InputError(f"`{path}` is damaged", why=str(error)) from None
    if not (about.axis or about.spec.get("axis")):
        raise InputError(f"`{path}` is damaged", why="its first line does not say what was swept")
    return Stored(about=about, messages=messages[1:])


def read_rates(directory: Path) -> tuple[Rates, list[str]]:
    """The device's ceilings, and what of them could not be measured.

    Raises:
        InputError: the file is damaged.
    """
    path = directory / CEILINGS_FILE
    if not path.is_file():
        return Rates(), []
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_CeilingsFile)
    except msgspec.DecodeError as error:
        raise InputError(f"`{path}` is damaged", why=str(error)) from None
    return found.ceilings, found.problems


def measured_points(stored: Stored) -> list[Measured]:
    """Put the messages about each point together.

    Raises:
        InputError: a message holds something else than a figure.
    """
    fields: dict[int, dict[str, Any]] = {}
    for message in stored.messages:
        point = fields.setdefault(message["value"], {"value": message["value"]})
        point.update(_fields(message))
    try:
        return [msgspec.convert(point, Measured) for _, point in sorted(fields.items())]
    except msgspec.ValidationError as error:
        raise InputError(f"`{POINTS_FILE}` is damaged", why=str(error)) from None


def again_ns(stored: Stored, value: int) -> list[int]:
    """Samples of the point at `value` from the end of a run.

    Runs of other values may have come before: what they measured again is another point.
    """
    return [
        int(sample)
        for message in stored.messages
        if message["kind"] == "again" and message["value"] == value
        for sample in message.get("eager_ns", [])
    ]


def _fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message's part of `Measured`; where a failed point was tried again, the last one holds."""
    kind = message["kind"]
    if kind == "failed":
        return {"failed": message.get("reason")}
    if kind == "timed":
        kept = ("eager_ns", "graph_ns", "tokens", "flops", "launch_ns", "node_ns")
        found = {name: message[name] for name in kept if name in message} | {"failed": None}
        weights, cache = message.get("weight_bytes"), message.get("kv_bytes")
        if weights is not None and cache is not None:
            found["bytes"] = weights + cache
        return found
    if kind == "counted":
        eager, graph = message["eager"], message["graph"]
        return {
            "failed": None,
            "activities": eager["activities"],
            "kernels": eager["kernels"],
            "busy_ns": eager["busy_ns"],
            "tklqt_ns": eager["tklqt_ns"],
            "graph_busy_ns": graph["busy_ns"],
            "graph_activities": graph["activities"],
        }
    return {"failed": None}
