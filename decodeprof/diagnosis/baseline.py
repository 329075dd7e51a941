"""Which blocking calls were there before? A file that is committed, and compared by content.

A site is known by its file, function, source text and op, never by its line: an edit above it must
not make it new. A second line of the same text in the same function is a new site.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import msgspec

from decodeprof.errors import InputError, UsageError
from decodeprof.model.calls import CallKind, call_kind
from decodeprof.model.diagnosis import Diagnosis, SyncSite
from decodeprof.model.gate import BASELINE_VERSION, Baseline, KnownSite

_MORE_CALLS = 0.5
"""A call without a line is new where a step holds so many more of its op: a new call in each step
is one more, and how often a stop check falls into the recorded steps varies by less."""
_MARK = b'"decodeprof_baseline"'
_HINT = "write it with `decodeprof check PATH --write-baseline FILE`"


def comparable(site: SyncSite) -> bool:
    """Whether a site waits by the name of its call.

    A copy from pageable memory waits or not as the timing falls, and the allocator frees when it
    must: neither is the same in each recording.
    """
    return site.api is None or call_kind(site.api) in (CallKind.SYNC, CallKind.BLOCKING_COPY)


def baseline_of(diagnosis: Diagnosis) -> Baseline:
    """The blocking calls of a diagnosis, in an order that does not depend on how often they run."""
    groups: dict[tuple[str, ...], list[SyncSite]] = {}
    lines: dict[_Key, set[int | None]] = {}
    for site in diagnosis.syncs:
        if comparable(site):
            lines.setdefault(_key(site), set()).add(site.line)
            key = (*(part or "" for part in _key(site)), site.op or _op_without_line(site) or "")
            groups.setdefault(key, []).append(site)
    known = []
    for _, sites in sorted(groups.items()):
        phase, file, function, code = _key(sites[0])
        calls = sum(site.calls_per_step for site in sites)
        known.append(
            KnownSite(
                phase="prefill" if phase == "prefill" else "decode",
                file=file,
                function=function,
                code=code,
                op=sites[0].op or _op_without_line(sites[0]),
                places=len(lines[_key(sites[0])]),
                calls_per_step=round(calls, 3) if file is None else None,
            )
        )
    return Baseline(decodeprof_baseline=BASELINE_VERSION, syncs=known)


def new_sites(diagnosis: Diagnosis, baseline: Baseline) -> list[SyncSite]:
    """The blocking calls that the baseline does not know, in the diagnosis' order."""
    known = _Known(baseline)
    return [site for site in diagnosis.syncs if comparable(site) and known.is_new(site)]


_Key: TypeAlias = tuple[str, str | None, str | None, str | None]


def _key(site: SyncSite) -> _Key:
    code = " ".join(site.code.split()) if site.code else None
    return site.phase, site.file, site.function, code


def _op_without_line(site: SyncSite) -> str | None:
    """What tells a call without a line from others: its op, or outside of any op its API."""
    return (site.op or site.api) if site.file is None else None


class _Known:
    """A baseline, ready to be asked site by site."""

    def __init__(self, baseline: Baseline) -> None:
        self._ops: dict[_Key, set[str | None]] = {}
        self._places: dict[_Key, int] = {}
        self._calls: dict[tuple[str, str | None], float] = {}
        self._seen: dict[_Key, set[int | None]] = {}
        for site in baseline.syncs:
            if site.file is None:
                self._calls[site.phase, site.op] = site.calls_per_step or 0.0
                continue
            key = (site.phase, site.file, site.function, site.code)
            self._ops.setdefault(key, set()).add(site.op)
            self._places[key] = max(site.places, self._places.get(key, 0))

    def is_new(self, site: SyncSite) -> bool:
        """Whether the baseline lacks it; to be asked once for each site."""
        key = _key(site)
        if site.file is None:
            known_calls = self._calls.get((site.phase, _op_without_line(site)))
            return known_calls is None or site.calls_per_step > known_calls + _MORE_CALLS
        lines = self._seen.setdefault(key, set())
        lines.add(site.line)
        ops = self._ops.get(key, set())
        agrees = bool(ops) and (site.op is None or bool(ops & {site.op, None}))
        return not agrees or len(lines) > self._places[key]


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        UsageError: there is no such file.
        InputError: it is no baseline, or of another version.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no baseline `{path}`", hint=_HINT) from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`", why=str(error.strerror)) from None
    try:
        baseline = msgspec.json.decode(data, type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{path}` is no baseline", why=str(error), hint=_HINT) from None
    if baseline.decodeprof_baseline != BASELINE_VERSION:
        raise InputError(
            f"`{path}` is a baseline of another version",
            why=f"its version is {baseline.decodeprof_baseline}; this decodeprof reads "
            f"{BASELINE_VERSION}",
            hint=_HINT,
        )
    return baseline


def may_be_replaced(path: Path) -> bool:
    """Whether nothing is lost by writing a baseline there: it is none, or an earlier baseline."""
    if not path.exists():
        return True
    try:
        return path.is_file() and _MARK in path.read_bytes()
    except OSError:
        return False


def baseline_json(baseline: Baseline) -> bytes:
    """The file's text: a line for each field, so that a change reads well in a diff."""
    return msgspec.json.format(msgspec.json.encode(baseline), indent=1) + b"\n"
