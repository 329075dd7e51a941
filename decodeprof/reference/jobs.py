"""Which of a layer's jobs does a kernel of ours do, and can it run here?

Each Triton kernel replaces 5 to 30 small PyTorch kernels by one: at a node gap of 0.42 µs and some
2 µs a kernel, a layer that loses 30 kernels loses 70 µs. Each is an option of its own, so that its
gain can be measured, and where Triton cannot run (no CUDA device, not installed) PyTorch does the
same job.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass

import torch
from torch import Tensor

from decodeprof.reference.fused import TORCH, Jobs, JoinedLayer, Turn


@dataclass(frozen=True)
class KernelOptions:
    """Which jobs go to Triton kernels; all need joined weights.

    Attributes:
        norm: add and RMS-normalise.
        place: normalise heads, rotate, write the cache.
        attend: attention over the valid prefix alone.
        gate: SwiGLU's activation.
        matvec: at batch 1, matrices with the norm, the residual and the gate folded in, and an
            output projection that ends in the token; larger batches keep the matrix kernels.
        overlap: let each kernel of the matvec path begin, and ask for its weights, while the one
            before still runs (programmatic dependent launch).
    """

    norm: bool = False
    place: bool = False
    attend: bool = False
    gate: bool = False
    matvec: bool = False
    overlap: bool = False


ALL_KERNELS = KernelOptions(
    norm=True, place=True, attend=True, gate=True, matvec=True, overlap=True
)


def why_no_triton(device: torch.device) -> str | None:
    """Why Triton kernels cannot run on this device; none when they can."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"Triton does not run on {device.type}"
    return None


def choose_jobs(options: KernelOptions, device: torch.device) -> Jobs:
    """The jobs as asked for, or PyTorch's where Triton cannot run."""
    if why_no_triton(device) is not None:
        return TORCH
    return Jobs(
        add_norm=_add_norm if options.norm else TORCH.add_norm,
        place=functools.partial(_place, overlap=options.overlap) if options.place else TORCH.place,
        attend=functools.partial(_attend, overlap=options.overlap)
        if options.attend
        else TORCH.attend,
        gate=_gate if options.gate else TORCH.gate,
        attend_needs_mask=not options.attend,
    )


# Imports stand in the functions: the kernels' modules need Triton, this one must not.


def _add_norm(
    residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    from decodeprof.reference.kernels.add_norm import add_norm

    return add_norm(residual, delta, weight, eps)


def _place(qkv: Tensor, weights: JoinedLayer, layer: int, turn: Turn, *, overlap: bool) -> Tensor:
    from decodeprof.reference.kernels.place import place

    return place(
        qkv,
        (weights.q_norm, weights.k_norm),
        (turn.cosine, turn.sine),
        turn.positions,
        (turn.cache.keys[layer], turn.cache.values[layer]),
        turn.eps,
        overlap=overlap,
    )


def _attend(q: Tensor, layer: int, turn: Turn, *, overlap: bool) -> Tensor:
    from decodeprof.reference.kernels.attend import attend

    return attend(
        q, turn.cache.keys[layer], turn.cache.values[layer], turn.positions, overlap=overlap
    )


def _gate(gate_up: Tensor) -> Tensor:
    from decodeprof.reference.kernels.gate import gate

    return gate(gate_up)
