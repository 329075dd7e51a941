"""Ping-pong: what if the host looks at every token, but always one step late, on two streams?

Steps alternate between two streams. Step i + 1 is launched behind step i, and only then does the
host wait for the flags of step i: while it looks, the device works. It takes the wait out of a
step; where launching is what takes the time, there was nothing to win.

Why no access is unordered, though memory passes from stream to stream:

- Fork. Whatever the caller's stream writes before the first step, the prompt and the first flags,
  is launched before both sides are told to wait for that stream.
- Steps. Step i + 1 waits for the event that step i records behind the last of what it hands over:
  its token, its flags and the cache. So all steps run one after the other. Only the copy of the
  flags to the host runs beside the next step, and both read them.
- Join. The caller's stream waits for both sides before it reads the tokens, and both sides then
  wait for it. That is so after an error too.

The allocator hands a freed block out again on the stream that allocated it, with no regard to
readers on other streams. `record_stream` on each tensor would make it wait, at the price of two
events for each layer's keys and values at every step. The order above does it for nothing: a
block of one side is freed at the earliest while the other side's step, its last reader, is being
launched, and its own side allocates next behind the wait for that step. What is freed at the end is
allocated again behind the join. What the caller's stream allocated is kept until the join, and the
pinned flags are kept by the allocator of pinned memory until their copies are done.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache


def _has_streams(device: torch.device) -> bool:
    return device.type == "cuda"


class _Side:
    """One of the two: its stream, the flags it sends to the host, and their events."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.cuda = _has_streams(device)
        self.stream: Any = torch.cuda.Stream() if self.cuda else None
        self.flags = torch.zeros(rows, dtype=torch.bool, pin_memory=device.type == "cuda")
        self.stepped: Any = torch.cuda.Event() if self.cuda else None
        self.copied: Any = torch.cuda.Event() if self.cuda else None

    def wait_for_caller(self) -> None:
        """Run what comes next behind all that the caller's stream was given so far."""
        if self.cuda:
            self.stream.wait_stream(torch.cuda.current_stream())

    def caller_waits(self) -> None:
        """Run what the caller's stream is given next behind all that this side was given."""
        if self.cuda:
            torch.cuda.current_stream().wait_stream(self.stream)

    def wait_for_step_of(self, there: _Side) -> None:
        """Run what comes next behind the other side's last step, its copy to the host apart."""
        if self.cuda:
            self.stream.wait_event(there.stepped)

    def hand_over(self, ended: Tensor) -> None:
        """Close a step: what was launched is the other side's to read; the flags go to the host."""
        if self.cuda:
            self.stepped.record()
        self.flags.copy_(ended, non_blocking=True)
        if self.cuda:
            self.copied.record()

    def all_ended(self) -> bool:
        """Wait for this side's last step alone."""
        if self.cuda:
            self.copied.synchronize()
        return bool(self.flags.all())


@torch.no_grad()
def ping_pong(model: Any, prompt: Tensor, new_tokens: int) -> Tensor:
    """Greedy continuation with the stop check one step behind; as `loops.dynamic_cache`.

    Returns:
        ``[batch, made]``: up to one token a row beyond the step at which all had ended is cut.
    """
    rows, device = prompt.shape[0], prompt.device
    # Made before the fork, and kept until after the join: the first step reads it on a side.
    none_ended = torch.zeros(rows, dtype=torch.bool, device=device)
    sides = (_Side(rows, device), _Side(rows, device))
    made: list[Tensor] = []
    for side in sides:
        side.wait_for_caller()
    try:
        try:
            _alternate(model, prompt, new_tokens, sides=sides, ended=none_ended, made=made)
        finally:
            for side in sides:
                side.caller_waits()
        return torch.cat(made, dim=1)
    finally:
        # What a side allocated, and the other side or the caller's stream read, is written again
        # only behind those readers.
        for side in sides:
            side.wait_for_caller()


def _alternate(
    model: Any,
    prompt: Tensor,
    new_tokens: int,
    *,
    sides: tuple[_Side, _Side],
    ended: Tensor,
    made: list[Tensor],
) -> None:
    """Step on either side in turn, and append each token to `made`."""
    cache = DynamicCache(config=model.config)
    tokens = prompt
    for index in range(new_tokens):
        here, there = sides[index % 2], sides[1 - index % 2]
        with torch.cuda.stream(here.stream):
            if index:
                here.wait_for_step_of(there)
            logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            tokens = logits[:, -1:].argmax(-1)
            made.append(tokens)
            # A new tensor each step: the copy of the last flags may still be reading those.
            ended = ended | (tokens[:, 0] == model.config.eos_token_id)
            here.hand_over(ended)
        if index and there.all_ended():
            made.pop()
            break
