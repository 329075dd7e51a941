"""A diagnosis as the bytes of diagnosis.json: the public contract, the same wherever written."""

from __future__ import annotations

import msgspec

from decodeprof.model.diagnosis import Diagnosis


def diagnosis_json(diagnosis: Diagnosis) -> bytes:
    """Indented JSON with dictionary keys in order, and a closing line break."""
    encoded = msgspec.json.encode(diagnosis, order="deterministic")
    return msgspec.json.format(encoded, indent=1) + b"\n"
