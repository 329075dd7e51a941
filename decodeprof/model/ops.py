"""What did one decode step ask of the device, operation by operation?

Two consecutive steps, recorded so, are all that a comparison needs to say what a CUDA graph of
the step would get wrong. A storage is named by a number that belongs to it for as long as it
lives, never by its address: an allocator hands the same address to a new tensor each step.
"""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in Python code."""

    file: str
    line: int
    function: str
    code: str = ""
    """The source line's text."""
    stack: list[str] = []
    """``file:line function``, outermost first; the place itself last."""


class TensorRef(msgspec.Struct, frozen=True, array_like=True):
    """A tensor that an operation read or made."""

    storage: int
    """The same number as long as the storage lives; no other storage has it, then or later."""
    shape: tuple[int, ...]
    dtype: str
    device: str
    """``cuda:0``, ``cpu``, or ``pinned``: page-locked memory of the host."""

    @property
    def on_device(self) -> bool:
        """Whether the GPU holds it."""
        return self.device not in ("cpu", "pinned", "meta")


class OpCall(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, as it reached the dispatcher."""

    name: str
    """``aten::add.Tensor``."""
    inputs: tuple[TensorRef, ...] = ()
    outputs: tuple[TensorRef, ...] = ()
    scalars: tuple[str, ...] = ()
    """Every argument that is no tensor, as text, in order."""
    place: int = 0
    """Index into the record's places."""
    view: bool = False
    """It launches nothing: the output is another look at an input."""
    random: bool = False
    """It draws random numbers."""
    own_generator: bool = False
    """From a generator that was passed to it, not from the device's default one."""
    wait: str = ""
    """Why the host waits for the device in it; empty: it does not."""


class StepOps(msgspec.Struct, frozen=True, kw_only=True):
    """One step's operations, in order."""

    step: int
    calls: tuple[OpCall, ...]
    forward_calls: int | None = None
    """How many of the calls, from the first, belong to the forward or replay that began the step;
    None: it is not known where that ended."""
    kept: tuple[int, ...] = ()
    """Indices of calls whose output was still held by the program a whole step later; empty also
    where that was not looked at."""


class OpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Two consecutive decode steps of one call of the target."""

    first: StepOps
    second: StepOps
    places: tuple[Place, ...]
