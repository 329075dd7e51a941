"""Runs a target's real code on a CPU while its tensors answer that they live on a GPU.

Values are real and so are the tokens; what is predicted is where the host would wait for the
device, and what a CUDA graph of a step would refuse or get wrong.

Importing this package never imports torch; `predict` does.
"""

from __future__ import annotations

import typing
from importlib import import_module

if typing.TYPE_CHECKING:
    from decodeprof.lint.block import Predicted, predict

__all__ = ["Predicted", "predict"]


def __getattr__(name: str) -> typing.Any:
    if name in __all__:
        return getattr(import_module("decodeprof.lint.block"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
