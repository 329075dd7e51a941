"""A diagnosis as the bytes of diagnosis.json: the public contract, the same wherever written."""

from __future__ import annotations

import msgspec

from decodeprof.model.diagnosis import Diagnosis


def diagnosis_json(diagnosis: Diagnosis) -> bytes:
    """Indented JSON with dictionary keys in order, and a closing line break."""
    # Keys that are numbers, such as those of source lines, sort only as text.
    plain = msgspec.to_builtins(diagnosis, str_keys=True, order="deterministic")
    return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"
