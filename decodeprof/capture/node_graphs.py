"""Which graphs tell apart what kinds of nodes cost?

Each has another mixture of the kinds in `decodeprof.model.graph_nodes`. Their kernels alternate as
a decoder's do (normalise, project, activate): in a row of one tiny kernel the gap comes out at half
of what a real step pays, since each finds its code and data at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from decodeprof.capture.ceilings import expanded_copy

Run = Callable[[], object]

LAYERS = 24
NODES_PER_LAYER = 13
"""Kernels of one layer; one more where cuBLAS splits a product."""
_LARGE_ROWS = 512
"""Rows for which most kernels of a layer have hundreds of blocks."""
_WIDTH, _HIDDEN = 1024, 3072
_PROBED = 6
"""Layers of 12 MB each, which stay in memory while recording; an H200 caches 50 MB."""
_OTHERS = 64
"""Memsets or copies in a graph, each beside a kernel."""
_REDUCED = 1 << 20
"""Elements whose sum takes many blocks, for which torch sets a counter to 0 first."""
_COPIED_BYTES = 1 << 14
_EXPANDED = 4
"""Copies of an expanded tensor: what the profiler adds to each is far more than a gap."""
_OPTIONS: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}


def build() -> list[Run]:
    """What each graph holds; some 0.5 GB of device memory in all."""
    weights = layer_weights(_WIDTH, _HIDDEN)
    expanded = expanded_copy()
    return [
        layers(weights, rows=1),
        layers(weights, rows=_LARGE_ROWS),
        lambda: [expanded() for _ in range(_EXPANDED)],
        _sets(),
        _copies(),
    ]


Weights = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def layer_weights(width: int, hidden: int, *, count: int = LAYERS) -> Weights:
    """Scale, up and down projection of so many layers."""
    return [
        (
            torch.ones(width, **_OPTIONS),
            torch.randn(hidden, width, **_OPTIONS) / width,
            torch.randn(width, hidden, **_OPTIONS) / hidden,
        )
        for _ in range(count)
    ]


def probe() -> Run:
    """The smallest forward that is to the device what a step is: its weights fit into no cache."""
    return layers(layer_weights(_WIDTH, _HIDDEN, count=_PROBED) * (LAYERS // _PROBED), rows=1)


def layers(weights: Weights, *, rows: int) -> Run:
    """A forward of a few small layers, as kernels of a decode step."""
    start = torch.randn(1, rows, len(weights[0][0]), **_OPTIONS)

    def forward() -> object:
        hidden_state = start
        for scale, up, down in weights:
            wide = hidden_state.float()
            normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            inner = torch.nn.functional.linear(normed.to(torch.bfloat16) * scale, up)
            hidden_state = hidden_state + torch.nn.functional.linear(
                torch.nn.functional.silu(inner) * inner, down
            )
        return hidden_state

    return forward


def one_kernel() -> Run:
    """The smallest kernel."""
    one = torch.zeros(1, device="cuda")
    return lambda: one.add_(1)


def _sets() -> Run:
    """Sums that each take a memset and a kernel."""
    values = torch.zeros(_REDUCED, dtype=torch.float32, device="cuda")
    return lambda: [values.sum() for _ in range(_OTHERS)]


def _copies() -> Run:
    """Kernels with a copy within the device after each."""
    source = torch.zeros(_COPIED_BYTES // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return lambda: [target.copy_(source.add_(1)) for _ in range(_OTHERS)]
