"""What would a CUDA graph of a decode step refuse, or silently get wrong?

Answered from two consecutive steps, operation by operation. A graph repeats one step exactly: the
same kernels, shapes, addresses and Python values. So whatever differs between two steps, other
than values in tensors that stay where they are, a replay cannot follow. Storages are compared by
identity, since an allocator hands the same address to a new tensor each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from decodeprof.analysis.hazard_texts import TEXTS
from decodeprof.model.lint import Hazard, HazardKind
from decodeprof.model.ops import OpCall, OpRecord, StepOps, TensorRef

_SEVERITIES = ("refused", "wrong", "cost")
_MAX_DIFFED = 20_000
"""Operations beyond a common beginning and end that are still aligned one by one; the time to do
so grows with the square."""
_SHOWN_VALUES = 3


@dataclass(frozen=True)
class _Pair:
    """The same operation in both steps."""

    first: OpCall
    second: OpCall


def graph_hazards(record: OpRecord) -> list[Hazard]:
    """Compare two steps.

    Args:
        record: two consecutive decode steps.

    Returns:
        One hazard for each kind and place, the ones that make a capture fail first, then those
        that replay wrongly.
    """
    first, second = _on_device(record.first), _on_device(record.second)
    pairs, only_first, only_second = _aligned(first, second)
    found = [
        *_syncs(record.second.calls),
        *_sequence(record, only_first, only_second),
        *_shapes(record, pairs),
        *_scalars(record, pairs),
        *_inputs(record, pairs),
        *_host_tensors(pairs, only_second),
        *_generators(record.second.calls),
        *_kept(record.first),
    ]
    return _merged(found, record)


def device_operations(step: StepOps) -> int:
    """Operations of a step that launch something on the device."""
    return sum(1 for call in _on_device(step) if not call.view)


@dataclass(frozen=True)
class _Found:
    kind: HazardKind
    severity: str
    call: OpCall
    summary: str
    count: int = 1


def _touches_device(call: OpCall) -> bool:
    return any(each.on_device for each in (*call.inputs, *call.outputs))


def _on_device(step: StepOps) -> list[OpCall]:
    return [call for call in step.calls if _touches_device(call)]


def _aligned(
    first: list[OpCall], second: list[OpCall]
) -> tuple[list[_Pair], list[OpCall], list[OpCall]]:
    """Which operations correspond, by name and order, and which have no counterpart."""
    shorter = min(len(first), len(second))
    head = 0
    while head < shorter and first[head].name == second[head].name:
        head += 1
    tail = 0
    while tail < shorter - head and first[-1 - tail].name == second[-1 - tail].name:
        tail += 1
    middle_one = first[head : len(first) - tail]
    middle_two = second[head : len(second) - tail]
    pairs = [_Pair(*each) for each in zip(first[:head], second[:head], strict=True)]
    only_first, only_second = middle_one, middle_two
    if middle_one and middle_two and max(len(middle_one), len(middle_two)) <= _MAX_DIFFED:
        only_first, only_second = [], []
        names = [call.name for call in middle_one], [call.name for call in middle_two]
        for tag, i, j, k, m in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
            if tag == "equal":
                matched = zip(middle_one[i:j], middle_two[k:m], strict=True)
                pairs += [_Pair(*each) for each in matched]
            else:
                only_first += middle_one[i:j]
                only_second += middle_two[k:m]
    if tail:
        pairs += [_Pair(*each) for each in zip(first[-tail:], second[-tail:], strict=True)]
    return pairs, only_first, only_second


def _syncs(calls: Iterable[OpCall]) -> Iterator[_Found]:
    for call in calls:
        if call.wait:
            yield _Found("sync", "refused", call, f"{_short(call.name)}: {call.wait}")


def _sequence(
    record: OpRecord, only_first: list[OpCall], only_second: list[OpCall]
) -> Iterator[_Found]:
    for step, calls in ((record.first.step, only_first), (record.second.step, only_second)):
        for call in calls:
            other = record.second.step if step == record.first.step else record.first.step
            text = f"{_short(call.name)} ran in decode step {step} and not in step {other}"
            yield _Found("sequence", "wrong", call, text)


def _produced(step: StepOps) -> set[int]:
    """Storages that a step made: those that it never read before it wrote them."""
    read: set[int] = set()
    made: set[int] = set()
    for call in step.calls:
        if call.wait and call.name.startswith("aten::lift_fresh"):
            # What Python values were copied to, just before.
            made |= {each.storage for each in call.inputs}
        read |= {each.storage for each in call.inputs} - made
        made |= {each.storage for each in call.outputs} - read
    return made


def _shapes(record: OpRecord, pairs: list[_Pair]) -> Iterator[_Found]:
    """Where shapes begin to differ; what only follows from that is counted, not listed."""
    made = _produced(record.second)
    for pair in pairs:
        if not _shapes_differ(pair):
            continue
        if any(
            one.shape != two.shape and two.storage in made
            for one, two in zip(pair.first.inputs, pair.second.inputs, strict=False)
        ):
            continue
        one, two = _differing(pair)
        word = "grows" if _numel(two) > _numel(one) else "changes"
        text = f"{_short(pair.second.name)}: a shape {word}, {_shape(one)} → {_shape(two)}"
        yield _Found("shape", "wrong", pair.second, text)


def _shapes_differ(pair: _Pair) -> bool:
    one, two = pair.first, pair.second
    return _shapes_of(one.inputs) != _shapes_of(two.inputs) or _shapes_of(
        one.outputs
    ) != _shapes_of(two.outputs)


def _shapes_of(tensors: Iterable[TensorRef]) -> list[tuple[int, ...]]:
    return [each.shape for each in tensors]


def _differing(pair: _Pair) -> tuple[TensorRef, TensorRef]:
    """The tensor that shows the difference: what came out, else what went in."""
    for one, two in (
        *zip(pair.first.outputs, pair.second.outputs, strict=False),
        *zip(pair.first.inputs, pair.second.inputs, strict=False),
    ):
        if one.shape != two.shape:
            return one, two
    # Another number of tensors: the longer list's last one has no counterpart.
    empty = TensorRef(0, (0,), "", "cpu")
    ones, twos = pair.first.inputs, pair.second.inputs
    return (ones[-1], empty) if len(ones) > len(twos) else (empty, twos[-1])


def _scalars(record: OpRecord, pairs: list[_Pair]) -> Iterator[_Found]:
    for pair in pairs:
        one, two = pair.first.scalars, pair.second.scalars
        if one == two or _shapes_differ(pair) or len(one) != len(two):
            continue
        changed = [f"{a} → {b}" for a, b in zip(one, two, strict=True) if a != b]
        values = ", ".join(changed[:_SHOWN_VALUES])
        text = (
            f"{_short(pair.second.name)} is given {values} "
            f"(decode steps {record.first.step} and {record.second.step})"
        )
        yield _Found("scalar", "wrong", pair.second, text)


def _inputs(record: OpRecord, pairs: list[_Pair]) -> Iterator[_Found]:
    """Tensors from outside the step that stand at another storage in the next one."""
    made_one, made_two = _produced(record.first), _produced(record.second)
    seen: set[int] = set()
    for pair in pairs:
        for one, two in zip(pair.first.inputs, pair.second.inputs, strict=False):
            outside = one.storage not in made_one and two.storage not in made_two
            if not outside or not two.on_device or not two.storage or two.storage in seen:
                continue
            if one.storage == two.storage or one.shape != two.shape:
                continue
            seen.add(two.storage)
            text = f"{_short(pair.second.name)} reads {two.dtype}{_shape(two)} at a new storage"
            yield _Found("input", "wrong", pair.second, text)


def _host_tensors(pairs: list[_Pair], only_second: list[OpCall]) -> Iterator[_Found]:
    before = {id(pair.second): pair.first for pair in pairs}
    for call in (*(pair.second for pair in pairs), *only_second):
        if call.wait:
            continue  # Told as a sync already.
        held = [each for each in call.inputs if each.device in ("cpu", "pinned") and each.shape]
        if not held or not any(each.on_device for each in (*call.inputs, *call.outputs)):
            continue
        tensor = held[0]
        name, what = _short(call.name), f"{tensor.dtype}{_shape(tensor)}"
        if not call.name.startswith(("aten::_to_copy", "aten::copy_", "aten::copy")):
            text = f"{name} reads {what}, which the host holds"
            yield _Found("host_tensor", "refused", call, text)
        elif tensor.device == "cpu":
            text = f"{name} copies {what} from host memory that is not page-locked"
            yield _Found("host_tensor", "refused", call, text)
        elif _storages(before.get(id(call)), tensor) != {tensor.storage}:
            text = f"{name} copies {what} from page-locked memory that is another one each step"
            yield _Found("host_tensor", "wrong", call, text)


def _storages(call: OpCall | None, like: TensorRef) -> set[int]:
    if call is None:
        return set()
    return {each.storage for each in call.inputs if each.device == like.device}


def _generators(calls: Iterable[OpCall]) -> Iterator[_Found]:
    for call in calls:
        if call.random and "::" not in call.name:
            text = f"{call.name} is called in each step; seed once, before the loop"
            yield _Found("generator", "refused", call, text)
        elif call.random and call.own_generator and _touches_device(call):
            text = f"{_short(call.name)} draws from a generator of the program's own"
            yield _Found("generator", "refused", call, text)


def _kept(step: StepOps) -> Iterator[_Found]:
    for index in step.kept:
        call = step.calls[index]
        # On the device, or memory of the host that the device writes to.
        shape = next(map(_shape, sorted(call.outputs, key=lambda each: not each.on_device)), "")
        text = f"the result of {_short(call.name)} {shape} is still held a step later"
        yield _Found("kept_output", "wrong", call, text)


def _merged(found: list[_Found], record: OpRecord) -> list[Hazard]:
    """One hazard for each kind, severity and line; its count says how many it stands for."""
    merged: dict[tuple[str, str, str, int], Hazard] = {}
    in_forward = _forward_ids(record)
    for each in found:
        place = record.places[each.call.place]
        key = (each.kind, each.severity, place.file, place.line)
        inside: Literal["forward", "loop"] | None = None
        if in_forward is not None:
            inside = "forward" if id(each.call) in in_forward else "loop"
        known = merged.get(key)
        text = TEXTS[each.kind]
        merged[key] = Hazard(
            kind=each.kind,
            severity=each.severity,  # type: ignore[arg-type]
            place=known.place if known else place,
            op=known.op if known else each.call.name,
            summary=known.summary if known else each.summary,
            why=text.why,
            change=text.change,
            count=(known.count if known else 0) + each.count,
            inside=known.inside if known else inside,
        )
    kinds = list(TEXTS)
    return sorted(
        merged.values(),
        key=lambda h: (
            _SEVERITIES.index(h.severity),
            kinds.index(h.kind),
            -h.count,
            h.place.file,
            h.place.line,
        ),
    )


def _forward_ids(record: OpRecord) -> set[int] | None:
    """The calls of both steps' forwards, by identity; None: where they ended is not known."""
    found: set[int] = set()
    for step in (record.first, record.second):
        if step.forward_calls is None:
            return None
        found |= {id(call) for call in step.calls[: step.forward_calls]}
    return found


def _short(name: str) -> str:
    """``aten::add.Tensor`` as ``add``."""
    return name.removeprefix("aten::").rpartition(".")[0] if "::" in name else name


def _shape(tensor: TensorRef) -> str:
    return f"({', '.join(str(size) for size in tensor.shape)})"


def _numel(tensor: TensorRef) -> int:
    product = 1
    for size in tensor.shape:
        product *= size
    return product
