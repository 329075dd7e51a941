"""How does a Python program diagnose what was recorded earlier?"""

from __future__ import annotations

import os
from pathlib import Path

from decodeprof.api.result import Result
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.export.files import recording_folder


def analyze(path: str | os.PathLike[str]) -> Result:
    """Diagnose a recording's directory or a trace file; see `decodeprof.analyze`."""
    source = Path(path)
    return Result.of(analyze_path(source), recording=recording_folder(source), source=source)
