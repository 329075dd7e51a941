"""How does a notebook diagnose a function that it holds?"""

from __future__ import annotations

import math
import os
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from decodeprof.api.result import Result, page_of
from decodeprof.capture import Job, Progress, new_directory
from decodeprof.capture.directory import DEFAULT_PARENT
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import DecodeprofError, UsageError
from decodeprof.recording import DIAGNOSIS_FILE, write_whole
from decodeprof.report.as_json import diagnosis_json

_PAGE_FILE = "report.html"


def diagnose(
    function: Callable[..., Any],
    /,
    *,
    out: str | os.PathLike[str] | None,
    new_tokens: int | None,
    budget_s: float,
    arguments: dict[str, Any],
) -> Result:
    """Record a live function in this process and diagnose it; see `decodeprof.diagnose`."""
    # It imports torch, which `analyze` must not need.
    from decodeprof.capture.here import record_here

    _check(new_tokens=new_tokens, budget_s=budget_s)
    name = getattr(function, "__name__", type(function).__name__)
    stem = re.sub(r"\W+", "-", name).strip("-") or "function"
    directory = Path(out) if out is not None else new_directory(DEFAULT_PARENT, stem)
    job = Job(target=name, new_tokens=new_tokens, budget_s=budget_s)
    record_here(function, arguments, job=job, out=directory, progress=_lines())
    try:
        analyzed = analyze_path(directory)
    except DecodeprofError as error:
        kept = f"the recording is kept in `{directory}`"
        error.hint = f"{error.hint}\n{kept}" if error.hint else kept
        raise
    write_whole(directory / DIAGNOSIS_FILE, diagnosis_json(analyzed.diagnosis))
    write_whole(directory / _PAGE_FILE, page_of(analyzed).encode())
    return Result.of(analyzed, recording=directory)


def _check(*, new_tokens: object, budget_s: object) -> None:
    """Refuse options that mean nothing, before anything runs."""
    if new_tokens is not None and not (type(new_tokens) is int and new_tokens > 0):
        raise UsageError(
            f"`new_tokens` is a number of tokens from 1, not {new_tokens!r}",
            hint="leave it away where the function yields or returns its tokens",
        )
    seconds = type(budget_s) in (int, float) and typing.cast(float, budget_s)
    if not seconds or not 0 < seconds < math.inf:
        raise UsageError(f"`budget_s` is a number of seconds above 0, not {budget_s!r}")


def _lines() -> Callable[[Progress], None]:
    """One line on stderr for each pass as it begins: a recording takes some ten seconds."""
    last = ""

    def tell(progress: Progress) -> None:
        nonlocal last
        if progress.pass_name != last:
            last = progress.pass_name
            sys.stderr.write(f"decodeprof: {last}\n")

    return tell
