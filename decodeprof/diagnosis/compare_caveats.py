"""Did two diagnoses see the same work: model, batch, tokens, machine? What a reader must know."""

from __future__ import annotations

import msgspec

from decodeprof import units
from decodeprof.model.diagnosis import Diagnosis

_UNTIL = {
    "yield": "the first yield",
    "forward": "the end of the first forward",
    "mark": "the end of the marked prefill",
    "second_forward": "the second step",
}
_VERSIONS = {
    "torch": "The version of torch",
    "driver": "The version of driver",
    "cpu": "The host's processor",
}
_SIZES = ("parameters", "parameter bytes")


def same_recording(before: Diagnosis, after: Diagnosis) -> bool:
    """Whether both are of one recording, wherever it lies: two runs never take the same times."""
    return msgspec.structs.replace(after, source=before.source) == before


def other_work(before: Diagnosis, after: Diagnosis) -> str | None:
    """What makes the second one's step other work than a prediction of the first was made for.

    Returns:
        "model", "batch" or "device"; None: as far as is known it is the same work.
    """
    if _sizes_differ(before, after):
        return "model"
    if _both_differ(_batch(before), _batch(after)):
        return "batch"
    if _both_differ(_device(before), _device(after)):
        return "device"
    return None


def caveats(before: Diagnosis, after: Diagnosis) -> list[str]:
    """What to know before believing a difference, one sentence or two each."""
    if same_recording(before, after):
        return ["Both sides are the same recording: nothing is compared."]
    texts = [
        *_targets(before, after),
        *_models(before, after),
        *_unknown_work(before, after),
        *_told("The device", _device(before), _device(after)),
        *_told("The batch", _batch(before), _batch(after)),
        *_told("The number of new tokens", _new_tokens(before), _new_tokens(after)),
    ]
    for key, name in _VERSIONS.items():
        texts += _told(name, before.about.environment.get(key), after.about.environment.get(key))
    one, two = before.generation, after.generation
    if one and two and one.ttft_ns and two.ttft_ns and one.ttft_until != two.ttft_until:
        ends = [_UNTIL[each.ttft_until or "second_forward"] for each in (one, two)]
        texts.append(
            f"First tokens are timed to different ends: {ends[0]} before, {ends[1]} after."
        )
    if not (before.step and before.step.unprofiled_ns and after.step and after.step.unprofiled_ns):
        texts.append("Unprofiled times are not known on both sides: profiled host times mislead.")
    return texts


def _both_differ(one: object, two: object) -> bool:
    return one is not None and two is not None and one != two


def _told(name: str, before: str | None, after: str | None) -> list[str]:
    """That something differs, where both sides are known."""
    if not _both_differ(before, after):
        return []
    return [f"{name} differs: {before} before, {after} after."]


def _batch(diagnosis: Diagnosis) -> str | None:
    generation = diagnosis.generation
    return str(generation.batch) if generation and generation.batch else None


def _new_tokens(diagnosis: Diagnosis) -> str | None:
    generation = diagnosis.generation
    return str(generation.new_tokens) if generation and generation.new_tokens else None


def _device(diagnosis: Diagnosis) -> str | None:
    if diagnosis.about.device is not None:
        return diagnosis.about.device
    recorded = diagnosis.source.kind == "recording" and "device" not in diagnosis.source.captured
    return "none, the CPU alone" if recorded else None


def _targets(before: Diagnosis, after: Diagnosis) -> list[str]:
    one, two = before.about.target, after.about.target
    if not one or not two:
        return []
    if one == two:
        return _arguments_differ(before.about.arguments, after.about.arguments)
    return [
        f"The targets differ: {one} before, {two} after. What differs between "
        "the two may be more than one change."
    ]


def _arguments_differ(before: dict[str, str], after: dict[str, str]) -> list[str]:
    names = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    if not names:
        return []
    told = "; ".join(
        f"{name} is {before.get(name, 'not given')} before, {after.get(name, 'not given')} after"
        for name in names
    )
    return [f"The arguments differ: {told}."]


def _sizes_differ(before: Diagnosis, after: Diagnosis) -> bool:
    one, two = before.about.model, after.about.model
    return any(_both_differ(one.get(key), two.get(key)) for key in _SIZES)


def _models(before: Diagnosis, after: Diagnosis) -> list[str]:
    if _sizes_differ(before, after):
        return [
            f"The models differ: {_model_text(before)} before, {_model_text(after)} after. The "
            "times are of different work."
        ]
    return _told("The model's class", _model_name(before), _model_name(after))


def _model_name(diagnosis: Diagnosis) -> str | None:
    name = diagnosis.about.model.get("name")
    return None if name is None else str(name)


def _model_text(diagnosis: Diagnosis) -> str:
    model = diagnosis.about.model
    count, size = (model.get(key) for key in _SIZES)
    parts = []
    if isinstance(count, int):
        parts.append(units.counted(count, "parameter"))
    if isinstance(size, int):
        parts.append(units.bytes_(size))
    return f"{model.get('name', 'a model')} ({', '.join(parts) or 'of unknown size'})"


def _unknown_work(before: Diagnosis, after: Diagnosis) -> list[str]:
    """What one side does not say of its work; one target on both sides is taken to run the same."""
    target = before.about.target
    if target is not None and target == after.about.target:
        return []
    texts = []
    for side, diagnosis in (("before", before), ("after", after)):
        missing = [
            name
            for name, known in (
                ("which model it ran", bool(diagnosis.about.model)),
                ("its batch", _batch(diagnosis) is not None),
                ("how many tokens it made", _new_tokens(diagnosis) is not None),
            )
            if not known
        ]
        if missing:
            texts.append(
                f"{diagnosis.source.name} ({side}) does not say {_listed(missing)}: whether both "
                "did the same work is not known."
            )
    return texts


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
