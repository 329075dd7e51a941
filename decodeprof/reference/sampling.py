"""How is a token drawn at random without the host seeing the distribution?

`torch.multinomial` followed by `.item()` makes the host wait a whole step for one number. The
Gumbel-max trick draws from the same distribution with an argmax: add −log(−log u), u uniform, to
each logit, and the largest is a sample of the softmax. With filters that mask instead of cutting,
every shape is fixed, no value is read by the host, and the draw can be captured in a graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


def _refuse_senseless(
    temperature: float, *, top_k: int | None, top_p: float | None, min_p: float | None
) -> None:
    """Plain comparisons of numbers, which torch.compile resolves while it traces."""
    if not 0 <= temperature < math.inf:
        raise ValueError(f"the temperature is 0 or more, and finite, not {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is at least 1, not {top_k}")
    for name, value in (("top_p", top_p), ("min_p", min_p)):
        if value is not None and not 0 < value <= 1:
            raise ValueError(f"{name} is above 0 and at most 1, not {value}")


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; host constants, so a captured graph keeps those it was made with.

    Attributes:
        temperature: 0 is greedy.
        top_k: keep the k likeliest tokens.
        top_p: keep the fewest likeliest tokens whose probabilities reach this sum.
        min_p: keep tokens at least this share as likely as the likeliest.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        _refuse_senseless(self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p)

    def __call__(
        self,
        logits: Tensor,
        generator: torch.Generator | None = None,
        *,
        uniform: Tensor | None = None,
    ) -> Tensor:
        """Sample with these settings: `sample_on_device`."""
        return sample_on_device(
            logits,
            self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            generator=generator,
            uniform=uniform,
        )


GREEDY = Sampling()


def filtered_logits(
    logits: Tensor,
    temperature: float,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Tensor:
    """Logits over temperature, with every token that a filter removes at −inf.

    The filters apply in the order top_k, top_p, min_p, each to what the one before left. The
    likeliest token always stays.

    Args:
        logits: ``[..., vocab]``.
        temperature: above 0.
        top_k: as in `Sampling`, and so are the others.
        top_p: none filters nothing.
        min_p: none filters nothing.

    Returns:
        float32, of the same shape.
    """
    scaled = logits.float() / temperature
    if top_k is not None and top_k < scaled.shape[-1]:
        least = scaled.topk(top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    if top_p is not None:
        ordered, order = scaled.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        # A token stays when those before it have not reached the sum yet: so the first always does.
        surplus = probabilities.cumsum(-1) - probabilities >= top_p
        removed = torch.zeros_like(surplus).scatter(-1, order, surplus)
        scaled = scaled.masked_fill(removed, -torch.inf)
    if min_p is not None:
        probabilities = scaled.softmax(-1)
        least = min_p * probabilities.amax(-1, keepdim=True)
        scaled = scaled.masked_fill(probabilities < least, -torch.inf)
    return scaled


def sample_on_device(
    logits: Tensor,
    temperature: float = 0.0,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    generator: torch.Generator | None = None,
    uniform: Tensor | None = None,
) -> Tensor:
    """Choose a token from each distribution, without the host waiting for anything.

    Args:
        logits: ``[..., vocab]``.
        temperature: 0 is greedy, and no filter matters then.
        top_k: as in `Sampling`, and so are the others.
        top_p: none filters nothing.
        min_p: none filters nothing.
        generator: of the logits' device; the default one when absent.
        uniform: float32 numbers of the logits' shape, from 0 to below 1, to use instead of drawing:
            for torch.compile, which takes no generator.

    Returns:
        Token numbers, int64 ``[...]``.

    Raises:
        ValueError: a setting that `Sampling` refuses.
    """
    _refuse_senseless(temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    if temperature == 0:
        return logits.argmax(-1)
    scaled = filtered_logits(logits, temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    if uniform is None:
        uniform = torch.rand(scaled.shape, device=scaled.device, generator=generator)
    # u = 0 gives −inf, which is never the largest: nothing is special-cased.
    return (scaled - torch.log(-torch.log(uniform))).argmax(-1)
