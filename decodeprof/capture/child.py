"""The process that imports torch and the script, and makes the recording.

Started by `supervise` as ``python -m decodeprof.capture.child DESCRIPTOR`` with an `Order` on its
standard input. However it ends, what had been recorded by then is in the output directory.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from decodeprof import mark
from decodeprof.capture.channel import Channel
from decodeprof.capture.failure import explain
from decodeprof.capture.invoke import Caller
from decodeprof.capture.job import Failed, Finished, Order
from decodeprof.capture.load import UserCodeFailed, load
from decodeprof.capture.places import Places
from decodeprof.capture.target import Spec, parse_spec
from decodeprof.errors import DecodeprofError
from decodeprof.recording import FIRST_CALL_TRACE_FILE, Environment, Recording, Target

if TYPE_CHECKING:
    from decodeprof.capture.session import Session, Watches

_PHASE_TEXTS = {
    "import": "importing the script",
    "setup": "setting up",
    "call": "ready to call",
}


Work = Callable[[Order, Spec, Channel, Places], Finished | Failed]
"""What a child does with its order."""


def main(work: Work | None = None) -> None:
    """Read the order, do it, and say how it went.

    Args:
        work: what is done; None: a recording is made.
    """
    channel = Channel(int(sys.argv[1]))
    channel.prepare_process()
    _report_own_errors(channel)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Both are pipes here, and what the target printed must not die with it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    sys.argv = sys.argv[:1]
    spec = parse_spec(order.job.target)
    folder = spec.path.resolve().parent if spec.path is not None else Path.cwd()
    places = Places(str(folder))
    try:
        channel.send((work or _run)(order, spec, channel, places))
    except UserCodeFailed as failed:
        channel.send(explain(failed.error, during=failed.during, places=places))
    except KeyboardInterrupt:
        channel.send(Failed(what="stopped by Ctrl-C"))
    except DecodeprofError as error:
        channel.send(explain(error, during="", places=places))


def _report_own_errors(channel: Channel) -> None:
    """Say so when it is decodeprof that fails; the traceback goes to stderr as always."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            channel.send(Failed(what="stopped by Ctrl-C"))
            return
        sys.__excepthook__(kind, error, trace)
        text = "".join(traceback.format_exception_only(error)).strip()
        hint = "the traceback above belongs into a report of this bug"
        channel.send(Failed(what="decodeprof itself failed while recording", why=text, hint=hint))

    sys.excepthook = hook


def _run(order: Order, spec: Spec, channel: Channel, places: Places) -> Finished | Failed:
    channel.progress("load", "importing torch")
    try:
        watches = connect()
    except ModuleNotFoundError as error:
        return Failed(
            what=f"`{error.name}` is not installed for this Python",
            why=sys.executable.rpartition("/")[2] + " cannot import it",
            hint="run decodeprof with the Python that runs the script, or bring PyTorch into this "
            "one: `pip install torch`",
        )
    missing = _missing_device(order.job.device)
    if missing is not None:
        return missing
    if order.mode == "first_call":
        return _first_call(order, spec, channel, places, watches)
    from decodeprof.capture.run_passes import all_passes

    session = load_session(order, spec, channel, places, watches)
    all_passes(session)
    return Finished(
        graphs_captured_in=session.graphs_captured_in, no_gpu_activity=session.no_gpu_activity
    )


def _missing_device(device: str | None) -> Failed | None:
    """Why the device that was asked for by name cannot be used; None: it can, or none was asked."""
    import torch

    if device is None or not device.startswith("cuda") or torch.cuda.is_available():
        return None
    built = f"torch {torch.__version__} is built " + (
        f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    )
    return Failed(
        what=f"there is no device `{device}` here",
        why=f"torch sees no such GPU; {built}",
        hint="`decodeprof doctor` says why; without `--device` the target chooses for itself",
        asked_wrongly=True,
    )


def connect() -> Watches:
    """Import torch and connect everything that must be there before the script is."""
    from decodeprof.capture.compiled import CompileWatch
    from decodeprof.capture.hooks import ModuleHooks, ProfilerWatch, watch_graphs
    from decodeprof.capture.session import Watches
    from decodeprof.capture.watch import Watch

    steps = Watch()
    watches = Watches(steps, ModuleHooks(steps), ProfilerWatch(), CompileWatch())
    watch_graphs(steps, lambda: watches.captured_in.append(watches.phase))
    mark.observe(steps)
    return watches


def load_session(
    order: Order,
    spec: Spec,
    channel: Channel,
    places: Places,
    watches: Watches,
    on_phase: Callable[[str], None] = lambda _: None,
) -> Session:
    """Load the target and give the session that its passes share; phases are announced."""
    from decodeprof.capture.session import Session

    caller = Caller(watches.steps, most_items=order.job.new_tokens)

    def entered(phase: str) -> None:
        watches.phase = phase
        channel.progress("load", _PHASE_TEXTS[phase])
        on_phase(phase)

    target = load(order.job, spec, caller=caller, on_phase=entered)
    recording = Recording(
        target=Target(spec=spec.short, kind="function", setup=order.job.setup),
        environment=Environment(python="", torch="", decodeprof=""),
    )
    return Session(
        job=order.job,
        out=Path(order.out),
        channel=channel,
        places=places,
        watches=watches,
        caller=caller,
        target=target,
        recording=recording,
    )


def _first_call(
    order: Order, spec: Spec, channel: Channel, places: Places, watches: Watches
) -> Finished:
    """Profile the first call alone, from the phase in which graphs are captured."""
    import torch

    from decodeprof.capture.passes import write_scrubbed
    from decodeprof.capture.profiler import Session as ProfileSession

    on_device = torch.cuda.is_available()
    profiled = ProfileSession(
        watches.profilers, on_device=on_device, all_threads=False, max_steps=None
    )

    def on_phase(phase: str) -> None:
        if phase == order.profile_from:
            profiled.begin()

    session = load_session(order, spec, channel, places, watches, on_phase)
    session.on_device = on_device
    channel.progress("first_call", "first call")
    session.call(None, around=profiled.call())
    write_scrubbed(session, profiled.exported(), file=FIRST_CALL_TRACE_FILE)
    return Finished()


if __name__ == "__main__":
    main()
