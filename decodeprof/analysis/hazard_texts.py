"""Why does each kind of graph hazard matter, and what is to be changed?"""

from __future__ import annotations

from dataclasses import dataclass

from decodeprof.model.lint import HazardKind


@dataclass(frozen=True)
class Text:
    """What is said of every hazard of a kind."""

    why: str
    change: str


TEXTS: dict[HazardKind, Text] = {
    "sync": Text(
        why="while a stream is being captured nothing runs, so waiting for a result is refused: "
        "capture fails here",
        change="keep the value on the device, read it after the step or only every few steps, "
        "or leave this line outside of the captured step",
    ),
    "host_tensor": Text(
        why="work of the host is not part of a graph: capture refuses to copy from memory that "
        "may move, and a replay reads the same host memory again",
        change="make the tensor on the device once, or copy it through one page-locked buffer "
        "before the replay",
    ),
    "generator": Text(
        why="a graph only advances the generators that it was told of",
        change="call `graph.register_generator_state(generator)` before capturing, or draw from "
        "the device's default generator",
    ),
    "scalar": Text(
        why="a Python value is baked into the graph as it was during capture: every replay "
        "computes with the old one, and no error is ever raised",
        change="keep the value in a tensor on the device and update it in place there",
    ),
    "sequence": Text(
        why="a graph repeats the branch that was captured, whatever the data says",
        change="compute both branches and choose with `torch.where`, or capture one graph for "
        "each of them",
    ),
    "shape": Text(
        why="a graph has the shapes of its capture: a replay still works on the old length",
        change="write into buffers of a fixed size (a static KV cache with a mask), or capture "
        "one graph for each of a few sizes",
    ),
    "input": Text(
        why="a replay reads the addresses of the capture, not the tensor that is passed now",
        change="copy the new values into one buffer that stays: `buffer.copy_(new)` before the "
        "replay",
    ),
    "kept_output": Text(
        why="the next replay writes its result to the same memory, so what is kept changes",
        change="clone what is kept, or copy it into a buffer with a row for each step",
    ),
}
"""In the order in which hazards of one severity are told."""
