"""What was an op called with? Shapes, strides, dtypes and scalars, held once per distinct text.

A decode step repeats the same few hundred argument lists thousands of times: the raw text is the
key, so that each is decoded once.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from decodeprof.ingest.columns import Computed
from decodeprof.ingest.kineto_events import Args
from decodeprof.model.trace import NONE, OpDetail

_ANY = msgspec.json.Decoder()
# A byte that valid JSON cannot hold.
_BETWEEN = b"\0"


class Details:
    """Interns op arguments."""

    def __init__(self) -> None:
        self._index = Computed(self._new)
        self._details: list[OpDetail] = []
        self.any_shapes = False

    def column(self, args: list[Args]) -> NDArray[np.int32]:
        """The index of each argument list in `all`; -1 when none were recorded."""
        join = _BETWEEN.join
        keys = [join((a.dims, a.strides, a.types, a.scalars, a.old_dims)) for a in args]
        return self.indices(keys)

    def keys(self) -> list[bytes]:
        """What `indices` takes for each of `all`."""
        return [key for key, index in self._index.items() if index != NONE]

    def indices(self, keys: list[bytes]) -> NDArray[np.int32]:
        """The index of each joined argument list."""
        return np.fromiter(map(self._index.__getitem__, keys), np.int32, len(keys))

    def _new(self, key: bytes) -> int:
        dims, strides, types, scalars, old_dims = key.split(_BETWEEN, 4)
        shapes = dims or old_dims
        if not shapes:
            return NONE
        self.any_shapes = True
        self._details.append(
            OpDetail(
                shapes=tuple(_shape(x) for x in _list(shapes)),
                strides=tuple(_shape(x) for x in _list(strides)),
                dtypes=tuple(str(x) for x in _list(types)),
                scalars=tuple(str(x) for x in _list(scalars)),
                lists=tuple(_shapes(x) for x in _list(shapes)),
            )
        )
        return len(self._details) - 1

    def all(self) -> tuple[OpDetail, ...]:
        """Every distinct argument list."""
        return tuple(self._details)


def _list(text: bytes) -> list[object]:
    if not text:
        return []
    try:
        value = _ANY.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return value if isinstance(value, list) else []


def _shape(value: object) -> tuple[int, ...] | None:
    """A shape; None for what is no tensor. A tensor list (nested lists) is no single shape."""
    if not isinstance(value, list):
        return None
    if all(isinstance(size, int) for size in value):
        return tuple(int(size) for size in value)
    return None


def _shapes(value: object) -> tuple[tuple[int, ...], ...]:
    """The shapes in a tensor list; () for anything else."""
    if not isinstance(value, list) or not all(isinstance(item, list) for item in value):
        return ()
    shapes = [_shape(item) for item in value]
    return tuple(shape for shape in shapes if shape is not None)
