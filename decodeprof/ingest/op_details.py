"""What was an op called with? Shapes, strides, dtypes and scalars, held once per distinct text.

A decode step repeats the same few hundred argument lists thousands of times: the raw text is the
key, so that each is decoded once.
"""

from __future__ import annotations

import msgspec

from decodeprof.ingest.kineto_events import OpArgs
from decodeprof.model.trace import NONE, OpDetail

_ANY = msgspec.json.Decoder()


class Details:
    """Interns op arguments."""

    def __init__(self) -> None:
        self._index: dict[tuple[bytes, bytes, bytes, bytes], int] = {}
        self._details: list[OpDetail] = []
        self.any_shapes = False

    def index(self, args: OpArgs) -> int:
        """The index of these arguments in `all`; -1 when none were recorded."""
        key = (
            bytes(args.dims) or bytes(args.old_dims),
            bytes(args.strides),
            bytes(args.types),
            bytes(args.scalars),
        )
        if not key[0]:
            return NONE
        self.any_shapes = True
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self._details)
            self._details.append(
                OpDetail(
                    shapes=tuple(_shape(x) for x in _list(key[0])),
                    strides=tuple(_shape(x) for x in _list(key[1])),
                    dtypes=tuple(str(x) for x in _list(key[2])),
                    scalars=tuple(str(x) for x in _list(key[3])),
                    lists=tuple(_shapes(x) for x in _list(key[0])),
                )
            )
        return found

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
