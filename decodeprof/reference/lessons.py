"""What does each stage change, and what does that remove? In the order in which they are told.

Apart from the stages, so that they can be told where torch is not installed.
"""

from __future__ import annotations

LESSONS = {
    "plain": "The host waits for every token, and then launches a step again.",
    "eager": "Token and position stay on the device, so the host waits once in 16 steps; but it "
    "launches as many kernels as before, and that is what takes the time.",
    "graph": "The same kernels, launched by one call: what is left is the kernels' own time and "
    "the gaps between them.",
    "fused": "Projections of one input are joined, and query heads share their keys unrepeated: "
    "fewer, larger kernels.",
    "norm": "Adding and normalising is one kernel, not nine.",
    "place": "Normalising heads, rotating them and writing the cache is one kernel, not thirty.",
    "attend": "Attention reads the valid prefix alone, many programs at a time, and needs no mask.",
    "gate": "The feed-forward's activation is one kernel, not two.",
    "matvec": "At batch 1 a matrix kernel that only streams weights also normalises, adds and "
    "gates, and the last one ends in the token.",
    "overlap": "Each kernel begins, and asks for its weights, while the one before still runs: the "
    "gaps between kernels are filled.",
    "pipelined": "Every token is seen by the host, one step late, and the device never waits for "
    "it.",
    "compiled": "torch.compile fuses what is small and replays a graph of its own, with no kernel "
    "written by hand.",
}
"""One sentence for each stage."""
