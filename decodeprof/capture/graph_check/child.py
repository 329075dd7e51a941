"""The process that captures a target's step. What it learnt is in the order's folder."""

from __future__ import annotations

import sys
from pathlib import Path

from decodeprof.capture.channel import Channel
from decodeprof.capture.child import main
from decodeprof.capture.job import Failed, Finished, Order
from decodeprof.capture.places import Places
from decodeprof.capture.target import Spec


def graph_check(order: Order, spec: Spec, channel: Channel, places: Places) -> Finished | Failed:
    """Capture the step, if there is a GPU to do it on."""
    channel.progress("load", "importing torch")
    try:
        import torch
    except ModuleNotFoundError as error:
        return Failed(
            what=f"`{error.name}` is not installed for this Python",
            why=sys.executable.rpartition("/")[2] + " cannot import it",
            hint="run decodeprof with the Python that runs the script",
        )
    if not torch.cuda.is_available():
        built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
        return Failed(
            what="graph-check captures for real, and there is no CUDA GPU here",
            why=f"torch sees none; torch {torch.__version__} is built {built}",
            hint=f"`decodeprof lint {order.job.target}` predicts without a GPU what a capture "
            "would refuse or get wrong",
        )
    from decodeprof.capture.graph_check.checking import Checking

    Checking(order.job, spec, out=Path(order.out), places=places, channel=channel).run()
    return Finished()


if __name__ == "__main__":
    main(graph_check)
