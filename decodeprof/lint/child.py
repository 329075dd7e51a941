"""The process that runs a target as if there were a GPU.

Started by `supervise` with an `Order` on its standard input, as a recording's process is. What was
predicted is in the order's folder when it ends, also where the target failed half-way.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from decodeprof.capture.channel import Channel
from decodeprof.capture.child import main
from decodeprof.capture.failure import explain
from decodeprof.capture.job import Failed, Finished, Order
from decodeprof.capture.load import UserCodeFailed
from decodeprof.capture.places import Places
from decodeprof.capture.target import Spec
from decodeprof.lint.real_gpu import needs
from decodeprof.lint.supervise import RUN_FILE
from decodeprof.recording import write_json


def lint(order: Order, spec: Spec, channel: Channel, places: Places) -> Finished | Failed:
    """Judge the target, and leave what was seen in the order's folder."""
    channel.progress("load", "importing torch")
    try:
        from decodeprof.lint.judge import Judging
    except ModuleNotFoundError as error:
        return Failed(
            what=f"`{error.name}` is not installed for this Python",
            why=sys.executable.rpartition("/")[2] + " cannot import it",
            hint="run decodeprof with the Python that runs the script",
        )
    judging = Judging(order.job, spec, places=places, channel=channel)
    try:
        judging.run(default_device=order.default_device)
    except UserCodeFailed as failed:
        told = explain(failed.error, during=failed.during, places=places)
        missing = needs(failed.error)
        if missing is not None:
            told = msgspec.structs.replace(
                told,
                what=f"the target needs {missing}: {told.what}",
                hint="lint sees what goes through PyTorch's operators; an extension or a Triton "
                "kernel does not. Give the target a path in plain PyTorch, or run `decodeprof "
                "diagnose` where there is a GPU and the extension is installed",
            )
        return told
    finally:
        write_json(Path(order.out) / RUN_FILE, judging.gathered())
    return Finished()


if __name__ == "__main__":
    main(lint)
