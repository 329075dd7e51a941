"""Where would the host wait, and where is memory copied? Gathered per place and step."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypedDict

from decodeprof.capture.op_record import Stack, place_of
from decodeprof.capture.places import Places, stack_from
from decodeprof.capture.waiting import Wait
from decodeprof.lint.mode import Copied
from decodeprof.model.lint import PredictedCopy, PredictedSync
from decodeprof.model.ops import Place

_OWN = str(Path(__file__).resolve().parent)


def target_stack(frame: FrameType | None) -> Stack:
    """The target's frames from a frame outwards, without those of this package."""
    return tuple(each for each in stack_from(frame) if not each.file.startswith(_OWN))


@dataclass
class _Waits:
    by_step: Counter[int] = field(default_factory=Counter)


@dataclass
class _Copies:
    by_step: Counter[int] = field(default_factory=Counter)
    largest_bytes: int = 0


@dataclass
class Collector:
    """A sink that counts waits and pageable copies by place, operation and step."""

    current_step: Callable[[], int] = lambda: 0
    """0: the prefill, and what comes before it; i: the i-th decode step."""
    active: bool = True
    waits: dict[tuple[Stack, str, str], _Waits] = field(default_factory=dict)
    copies: dict[tuple[Stack, bool, bool], _Copies] = field(default_factory=dict)

    def waited(self, op: str, wait: Wait) -> None:
        """Count a wait."""
        if self.active:
            key = (target_stack(sys._getframe(1)), op, wait.reason)
            self.waits.setdefault(key, _Waits()).by_step[self.current_step()] += wait.count

    def copied(self, _op: str, copy: Copied) -> None:
        """Count a copy, if it goes through memory that is not page-locked."""
        if self.active and not copy.pinned:
            key = (target_stack(sys._getframe(1)), copy.to_device, copy.non_blocking)
            found = self.copies.setdefault(key, _Copies())
            found.by_step[self.current_step()] += 1
            found.largest_bytes = max(found.largest_bytes, copy.bytes)

    def clear(self) -> None:
        """Forget everything counted so far."""
        self.waits.clear()
        self.copies.clear()

    def syncs(self, places: Places, *, decode_steps: int) -> list[PredictedSync]:
        """Each place, operation and reason, those of the decode steps first.

        Args:
            places: shortens file names.
            decode_steps: how many whole ones there were; 0: a rate per step is unknown.
        """
        merged: dict[tuple[str, int, str, str], tuple[Place, Counter[int]]] = {}
        for (stack, op, reason), waits in self.waits.items():
            place = place_of(places, stack)
            key = (place.file, place.line, op, reason)
            merged.setdefault(key, (place, Counter()))[1].update(waits.by_step)
        found = [
            PredictedSync(
                place=place, op=op, reason=reason, **_rates(by_step, decode_steps=decode_steps)
            )
            for (_, _, op, reason), (place, by_step) in merged.items()
        ]
        return sorted(found, key=lambda sync: (*_often_first(sync), sync.op))

    def pageable(self, places: Places, *, decode_steps: int) -> list[PredictedCopy]:
        """Each copy through pageable memory, those of the decode steps first."""
        merged: dict[tuple[str, int, bool, bool], tuple[Place, _Copies]] = {}
        for (stack, to_device, non_blocking), copies in self.copies.items():
            place = place_of(places, stack)
            key = (place.file, place.line, to_device, non_blocking)
            known = merged.setdefault(key, (place, _Copies()))[1]
            known.by_step.update(copies.by_step)
            known.largest_bytes = max(known.largest_bytes, copies.largest_bytes)
        found = [
            PredictedCopy(
                place=place,
                direction="host to device" if to_device else "device to host",
                non_blocking=non_blocking,
                bytes_per_copy=copies.largest_bytes,
                **_rates(copies.by_step, decode_steps=decode_steps),
            )
            for (_, _, to_device, non_blocking), (place, copies) in merged.items()
        ]
        return sorted(found, key=lambda copy: (*_often_first(copy), copy.direction))


class _Rates(TypedDict):
    in_prefill: int
    in_decode: int
    in_last: int
    per_step: float | None


def _rates(by_step: Counter[int], *, decode_steps: int) -> _Rates:
    """Counts of a place by phase. Step `decode_steps` + 1 is the last one, whose end is unseen."""
    decode = sum(by_step[step] for step in range(1, decode_steps + 1))
    prefill = sum(count for step, count in by_step.items() if step <= 0)
    return {
        "in_prefill": prefill,
        "in_decode": decode,
        "in_last": sum(by_step.values()) - decode - prefill,
        "per_step": decode / decode_steps if decode_steps else None,
    }


def _often_first(found: PredictedSync | PredictedCopy) -> tuple[int, int, str, int]:
    return -found.in_decode, -found.in_prefill, found.place.file, found.place.line
