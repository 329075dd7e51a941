"""Which points does a sweep consist of, and what stays the same between them?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decodeprof.reference.model import SHAPES, ModelConfig

DECODE_AXES = ("batch", "context", "layers", "width")
TOY_AXES = ("batch", "layers", "width")
PHASES = {
    "decode": DECODE_AXES,
    "prefill": ("prompt", "layers", "width"),
    "toy": TOY_AXES,
}
"""What is run, and the axes along which it can be swept."""
LARGEST_VALUE = 2**31 - 1
"""Kernels count rows and tokens in 32 bits."""
TOY_LAYERS, TOY_WIDTH = 32, 1024
"""32 × (matmul, SiLU, add) of 1024²: 96 kernels, small enough to see each."""


@dataclass(frozen=True)
class SweepSpec:
    """A sweep.

    Attributes:
        phase: ``decode``: a step of the reference decoder; ``prefill``: its prompt pass; ``toy``:
            layers of a matmul, a SiLU and an addition.
        axis: the setting below that takes each of `values` in turn.
        shape: of the decoder, by name.
        layers, width: of the decoder or the toy; none: the shape's.
        batch: rows of a decode step.
        context: tokens that a decode step attends to, its own included.
        prompt: tokens of a prompt pass.
        fused: a decode step with joined projections and Triton kernels, where they can run.
    """

    phase: str
    axis: str
    values: tuple[int, ...]
    shape: str = "tiny"
    layers: int | None = None
    width: int | None = None
    batch: int = 1
    context: int = 128
    prompt: int = 128
    fused: bool = False

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise ValueError(f"there is no phase `{self.phase}`: it is one of {_list(PHASES)}")
        if self.axis not in PHASES[self.phase]:
            axes = _list(PHASES[self.phase])
            raise ValueError(f"`{self.axis}` is no axis of {self.phase}: it has {axes}")
        if self.shape not in SHAPES:
            raise ValueError(f"there is no shape `{self.shape}`: it is one of {_list(SHAPES)}")
        if not self.values or min(self.values) < 1:
            raise ValueError("a sweep needs values, each of at least 1")
        if max(self.values) > LARGEST_VALUE:
            raise ValueError(f"{max(self.values)} is too large: at most {LARGEST_VALUE}")
        if len(set(self.values)) < len(self.values):
            raise ValueError("a value of the sweep stands there twice")
        if self.phase != "toy":
            for width in self.values if self.axis == "width" else [self.width]:
                self._refuse_width(width)

    def at(self, value: int) -> SweepSpec:
        """The settings of one point, as a sweep of that point alone."""
        return dataclasses.replace(self, values=(value,), **{self.axis: value})  # type: ignore[arg-type]

    def config(self) -> ModelConfig:
        """The decoder's shape with this sweep's layers and width."""
        config = SHAPES[self.shape]
        if self.layers is not None:
            config = dataclasses.replace(config, layers=self.layers)
        if self.width is None:
            return config
        parts = [config.intermediate_size, config.heads, config.kv_heads]
        scaled = [part * self.width // config.hidden_size for part in parts]
        return dataclasses.replace(
            config,
            hidden_size=self.width,
            intermediate_size=scaled[0],
            heads=scaled[1],
            kv_heads=scaled[2],
        )

    def _refuse_width(self, width: int | None) -> None:
        """Refuse a width for which the shape's heads would have to be cut."""
        config = SHAPES[self.shape]
        # A key and value head's share: query heads and the inner width are multiples of these.
        least = config.hidden_size // config.kv_heads
        if width is not None and width % least:
            below = width // least * least
            nearest = f"{below} and {below + least}" if below else str(least)
            raise ValueError(
                f"the width {width} is no multiple of {least}, as the shape `{self.shape}` needs; "
                f"nearest: {nearest}"
            )

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SweepSpec:
        """Read what `dataclasses.asdict` wrote to JSON.

        Raises:
            ValueError: it names no sweep.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = set(fields) - known
        if unknown:
            raise ValueError(f"a sweep has no {_list(sorted(unknown))}")
        return cls(**{**fields, "values": tuple(fields["values"])})


def _list(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)
