"""Ping-pong: what if the host looks at every token, but always one step late, on two streams?

Steps alternate between two streams. Step i + 1 is launched behind step i, and only then does the
host wait for the flags of step i: while it looks, the device works. It takes the wait out of a
step; where launching is what takes the time, there was nothing to win.

The allocator hands a freed block out again on the stream that allocated it, with no regard to other
streams. Here that is safe without `record_stream`: each stream begins a step by waiting for the
step before on the other, so a block is written again only after its last reader.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache


class _Side:
    """One of the two: its stream, the flags it sends to the host, and their events."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.stream: Any = torch.cuda.Stream() if self.cuda else None
        self.flags = torch.zeros(rows, dtype=torch.bool, pin_memory=self.cuda)
        self.stepped: Any = torch.cuda.Event() if self.cuda else None
        self.copied: Any = torch.cuda.Event() if self.cuda else None

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
    sides = (_Side(rows, device), _Side(rows, device))
    if sides[0].cuda:
        for side in sides:
            side.stream.wait_stream(torch.cuda.current_stream())
    cache = DynamicCache(config=model.config)
    tokens, made = prompt, []
    ended = torch.zeros(rows, dtype=torch.bool, device=device)
    for index in range(new_tokens):
        here, there = sides[index % 2], sides[1 - index % 2]
        with torch.cuda.stream(here.stream):
            if index and here.cuda:
                here.stream.wait_event(there.stepped)
            logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            tokens = logits[:, -1:].argmax(-1)
            made.append(tokens)
            # A new tensor each step: the copy of the last flags may still be reading those.
            ended = ended | (tokens[:, 0] == model.config.eos_token_id)
            if here.cuda:
                here.stepped.record()
            here.flags.copy_(ended, non_blocking=True)
            if here.cuda:
                here.copied.record()
        if index and there.all_ended():
            made.pop()
            break
    if sides[0].cuda:
        for side in sides:
            torch.cuda.current_stream().wait_stream(side.stream)
    return torch.cat(made, dim=1)
