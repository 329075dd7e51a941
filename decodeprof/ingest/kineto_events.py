"""What does an event of torch.profiler's JSON look like? Typed structs, decoded by msgspec.

Only the fields that the analysis uses are named; msgspec skips the rest without building objects.
Times, process and thread ids stay raw text: their JSON type differs between versions, and times
must keep their digits. Raw texts point into the buffer that was decoded: they are good until the
next block is read.
"""

from __future__ import annotations

import msgspec

NOTHING = msgspec.Raw(b"")
"""A text that is not there."""
NONE = -1
Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments of every sort of event, in the order in which profilers write most of them.

    msgspec finds a field fastest where it expects it. The texts of shapes are kept raw, since they
    repeat.
    """

    external: Number = msgspec.field(default=NONE, name="External id")
    scalars: msgspec.Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")
    types: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Strides")
    dims: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")
    device: Number = NONE
    stream: Number = NONE
    correlation: Number = NONE
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    graph_node: Number = msgspec.field(default=NONE, name="graph node id")
    bytes: Number = NONE
    old_external: Number = msgspec.field(default=NONE, name="external id")
    old_dims: msgspec.Raw = msgspec.field(default=NOTHING, name="Input dims")
    old_bytes: Number = msgspec.field(default=NONE, name="Bytes")
    sync_kind: str | None = msgspec.field(default=None, name="cuda_sync_kind")
    waits_event: Number = msgspec.field(default=NONE, name="wait_on_cuda_event_id")
    recorded_by: Number = msgspec.field(default=NONE, name="wait_on_cuda_event_record_corr_id")


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`, as profilers write it."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: msgspec.Raw = NOTHING
    tid: msgspec.Raw = NOTHING
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
    args: Args | None = None


class LooseEvent(msgspec.Struct, gc=False):
    """One entry of `traceEvents` whose values are of unexpected types."""

    ph: Number | bool | list[msgspec.Raw] | dict[str, msgspec.Raw] = ""
    cat: Number | bool | list[msgspec.Raw] | dict[str, msgspec.Raw] = ""
    name: Number | bool | list[msgspec.Raw] | dict[str, msgspec.Raw] = ""
    pid: msgspec.Raw = NOTHING
    tid: msgspec.Raw = NOTHING
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
    args: msgspec.Raw = NOTHING


class DeviceProperties(msgspec.Struct, gc=False):
    """One entry of `deviceProperties`."""

    id: Number = None
    name: str | None = None
    total_memory: Number = msgspec.field(default=None, name="totalGlobalMem")
    major: Number = msgspec.field(default=None, name="computeMajor")
    minor: Number = msgspec.field(default=None, name="computeMinor")
    sm_count: Number = msgspec.field(default=None, name="numSms")


class Top(msgspec.Struct):
    """The top level without its events; a file of 2020 is the bare list of events instead."""

    events: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="traceEvents"
    )
    devices: msgspec.Raw = msgspec.field(default=NOTHING, name="deviceProperties")
    base_ns: Number = msgspec.field(default=None, name="baseTimeNanoseconds")
    record_shapes: Number | bool = None
    with_stack: Number | bool = None
    cuda_driver: Number = msgspec.field(default=None, name="cuda_driver_version")
    cuda_runtime: Number = msgspec.field(default=None, name="cuda_runtime_version")
    cupti: Number = msgspec.field(default=None, name="cupti_version")
    hip_runtime: Number = msgspec.field(default=None, name="hip_runtime_version")
    distributed: msgspec.Raw = msgspec.field(default=NOTHING, name="distributedInfo")


ARGS = msgspec.json.Decoder(Args)
DEVICES = msgspec.json.Decoder(list[DeviceProperties])
TOP = msgspec.json.Decoder(Top)
EVENT = msgspec.json.Decoder(Event)
EVENTS = msgspec.json.Decoder(list[Event])
LOOSE_EVENT = msgspec.json.Decoder(LooseEvent)
LIST = msgspec.json.Decoder(list[msgspec.Raw])
JSON = msgspec.json.Decoder(msgspec.Raw)

_INT64_MAX = 2**63 - 1


def whole(value: Number, default: int = NONE) -> int:
    """An integer out of what may be an int, a float, a numeric string or nothing.

    What does not fit int64 is `default`: such values occur in arguments and mean nothing here.
    """
    if type(value) is int:
        return value if -_INT64_MAX <= value <= _INT64_MAX else default
    if isinstance(value, str):
        text = value.removeprefix("stream ").strip()
        # isdecimal() alone would accept digits of other scripts.
        if text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 19:
            return int(text)
        return default
    if isinstance(value, float) and abs(value) < 2**53 and value == int(value):
        return int(value)
    return default
