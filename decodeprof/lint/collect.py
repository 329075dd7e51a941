"""Where would the host wait, and where is memory copied? Gathered per place and step."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from decodeprof.capture.op_record import Stack, place_of
from decodeprof.capture.places import Places, stack_from
from decodeprof.capture.waiting import Wait
from decodeprof.lint.mode import Copied
from decodeprof.model.lint import PredictedCopy, PredictedSync

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
            decode_steps: how many there were; 0: a rate per step is unknown.
        """
        merged: dict[tuple[str, int, str, str], PredictedSync] = {}
        for (stack, op, reason), waits in self.waits.items():
            place = place_of(places, stack)
            prefill, decode = _split(waits.by_step)
            key = (place.file, place.line, op, reason)
            known = merged.get(key)
            if known is not None:
                prefill, decode = prefill + known.in_prefill, decode + known.in_decode
                place = known.place
            merged[key] = PredictedSync(
                place=place,
                op=op,
                reason=reason,
                in_prefill=prefill,
                in_decode=decode,
                per_step=decode / decode_steps if decode_steps else None,
            )
        return sorted(
            merged.values(),
            key=lambda s: (-s.in_decode, -s.in_prefill, s.place.file, s.place.line, s.op),
        )

    def pageable(self, places: Places, *, decode_steps: int) -> list[PredictedCopy]:
        """Each copy through pageable memory, those of the decode steps first."""
        merged: dict[tuple[str, int, bool, bool], PredictedCopy] = {}
        for (stack, to_device, non_blocking), copies in self.copies.items():
            place = place_of(places, stack)
            prefill, decode = _split(copies.by_step)
            largest_bytes = copies.largest_bytes
            key = (place.file, place.line, to_device, non_blocking)
            known = merged.get(key)
            if known is not None:
                prefill, decode = prefill + known.in_prefill, decode + known.in_decode
                place, largest_bytes = known.place, max(largest_bytes, known.bytes_per_copy)
            merged[key] = PredictedCopy(
                place=place,
                direction="host to device" if to_device else "device to host",
                non_blocking=non_blocking,
                in_prefill=prefill,
                in_decode=decode,
                per_step=decode / decode_steps if decode_steps else None,
                bytes_per_copy=largest_bytes,
            )
        return sorted(
            merged.values(), key=lambda c: (-c.in_decode, -c.in_prefill, c.place.file, c.place.line)
        )


def _split(by_step: Counter[int]) -> tuple[int, int]:
    prefill = sum(count for step, count in by_step.items() if step <= 0)
    return prefill, sum(by_step.values()) - prefill
