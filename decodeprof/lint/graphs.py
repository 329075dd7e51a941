"""CUDA graphs on a CPU: what a capture records, a replay runs again on the same tensors.

As on a GPU, a capture changes nothing, Python values stand as they were, and results land in the
tensors of the capture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from decodeprof.capture.op_record import storage_number, tensors_in
from decodeprof.lint.mode import PretendMode


@dataclass(frozen=True)
class _Taped:
    func: Any
    args: Any
    kwargs: dict[str, Any]
    out: Any
    in_place: bool


class GraphTape:
    """The operations of one capture, and what they overwrote."""

    def __init__(self) -> None:
        self.taped: list[_Taped] = []
        self._made: set[int] = set()
        self._saved: dict[int, tuple[Any, Any]] = {}
        self._random: Any = torch.random.get_rng_state()

    def before(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Keep what an operation is about to overwrite."""
        arguments = func._schema.arguments if hasattr(func, "_schema") else ()
        values = dict(zip((each.name for each in arguments), args, strict=False))
        values.update(kwargs)
        for argument in arguments:
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for tensor in tensors_in(values.get(argument.name)):
                number = storage_number(tensor)
                if number not in self._made and number not in self._saved:
                    storage = tensor.untyped_storage()
                    self._saved[number] = (storage, storage.clone())

    def after(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """Keep the operation."""
        returns = func._schema.returns if hasattr(func, "_schema") else ()
        infos = [each.alias_info for each in returns]
        shares = bool(infos) and all(info is not None for info in infos)
        in_place = shares and any(info.is_write for info in infos if info is not None)
        if not shares:
            self._made.update(storage_number(each) for each in tensors_in(out))
        if in_place or not shares:
            self.taped.append(_Taped(func, args, dict(kwargs), out, in_place))

    def rewind(self) -> None:
        """Put back what the capture overwrote: nothing runs during a capture on a GPU."""
        for storage, before in self._saved.values():
            storage.copy_(before)
        self._saved.clear()
        torch.random.set_rng_state(self._random)

    def replay(self) -> None:
        """Run every operation again, into the tensors of the capture."""
        # What was made under inference mode can only be written there.
        with _disable_current_modes(), torch.inference_mode():
            for each in self.taped:
                out = each.func(*each.args, **each.kwargs)
                if each.in_place:
                    continue
                for kept, new in zip(tensors_in(each.out), tensors_in(out), strict=True):
                    _overwrite(kept, new)


def _overwrite(kept: Tensor, new: Tensor) -> None:
    if kept.data_ptr() != new.data_ptr():
        kept.copy_(new)


class PretendGraph:
    """Stands for `torch.cuda.CUDAGraph`."""

    mode: ClassVar[PretendMode]

    def __init__(self, **_options: Any) -> None:
        self._tape: GraphTape | None = None

    def capture_begin(self, *_args: Any, **_kwargs: Any) -> None:
        """From now on operations are taped."""
        if self._tape is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, "
                "create a new instance."
            )
        self._tape = self.mode.tape = GraphTape()

    def capture_end(self) -> None:
        """The graph is whole."""
        self.mode.tape = None
        if self._tape is not None:
            with _disable_current_modes():
                self._tape.rewind()

    def instantiate(self) -> None:
        """Nothing is left to do."""

    def replay(self) -> None:
        """Run the graph: one launch."""
        if self._tape is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._tape.replay()

    def reset(self) -> None:
        """Forget the graph."""
        self._tape = None

    def pool(self) -> tuple[int, int]:
        """The pool's name."""
        return (0, 1)

    def register_generator_state(self, generator: Any) -> None:
        """A generator's state is its own here."""

    def enable_debug_mode(self) -> None:
        """There is nothing to debug."""

    def debug_dump(self, debug_path: str) -> None:
        """There is nothing to dump."""


class PretendCapture:
    """Stands for `torch.cuda.graph`."""

    def __init__(self, cuda_graph: Any, *_args: Any, **_kwargs: Any) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> Self:
        self._graph.capture_begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._graph.capture_end()


def graph_class_for(mode: PretendMode) -> type[PretendGraph]:
    """A class whose captures are taped by `mode`."""
    return type("CUDAGraph", (PretendGraph,), {"mode": mode})
