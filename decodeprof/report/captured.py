"""What could this diagnosis see at all? Asked before anything is called none, or zero."""

from __future__ import annotations

from decodeprof.model.diagnosis import Diagnosis


def ran_without_gpu(diagnosis: Diagnosis) -> bool:
    """Whether a target was run on a machine where nothing could run on a GPU."""
    return (
        diagnosis.source.kind == "recording"
        and diagnosis.about.device is None
        and "device" not in diagnosis.source.captured
    )
