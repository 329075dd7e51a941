"""What went wrong in the user's code, in words: their frames, not ours and not torch's."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from decodeprof.capture.job import Failed
from decodeprof.capture.places import Frame, Places
from decodeprof.errors import DecodeprofError, UsageError

_MAX_SHOWN_FRAMES = 12
_MAX_MESSAGE_LINES = 6
_MAX_LINE_LENGTH = 400
"""Of a message; longer lines are data, and bury what matters."""
_MAX_MEMBERS = 5
_MAX_CAUSES = 3
_CAUSE_FRAMES = 2
"""The lines that raised it; how they were come to stands above."""
_OWN_PREFIXES = (__name__.rpartition(".")[0], "decodeprof.lint", "decodeprof.mark")
"""Modules of ours that may stand in the target's stack."""


def explain(error: BaseException, *, during: str, places: Places) -> Failed:
    """Tell an exception that the user's code raised.

    Args:
        error: what was raised, SystemExit and KeyboardInterrupt included.
        during: what was going on: ``while importing the script``, ``in call 3``.
        places: shortens file names.
    """
    if isinstance(error, DecodeprofError):
        asked_wrongly = isinstance(error, UsageError)
        return Failed(what=error.what, why=error.why, hint=error.hint, asked_wrongly=asked_wrongly)
    # Where an interruption fell inside a library, or in decodeprof, says nothing.
    interrupted = isinstance(error, KeyboardInterrupt)
    frames = "\n".join(user_frames(error, places, users_alone=interrupted))
    if isinstance(error, SystemExit):
        shown = "" if error.code is None else repr(error.code)
        importing = during == IMPORTING
        return Failed(
            what=f"the target called sys.exit({shown}) {during}",
            why=frames,
            hint="keep it below `if __name__ == '__main__':`"
            if importing
            else "return instead: it is called several times in one process",
        )
    if interrupted:
        return Failed(what=f"stopped by Ctrl-C {during}", why=frames)
    message = _message(error, places)
    why = "\n".join([frames, message, *_members(error, places), *_causes(error, places)]).strip()
    if type(error).__name__ == "OutOfMemoryError":
        return Failed(
            what=f"the GPU ran out of memory {during}",
            why=why,
            hint="lower the batch or the length with `--arg`; nothing else may hold the GPU's "
            "memory: `nvidia-smi`",
            message=message,
        )
    if isinstance(error, MemoryError) or _CPU_ALLOCATOR in message:
        return Failed(
            what=f"the machine ran out of memory {during}",
            why=why,
            hint="lower the batch, the length or the model's size",
            message=message,
        )
    what = f"the target raised {type(error).__name__} {during}"
    return Failed(what=what, why=why, hint=_hint(error, message), message=message)


IMPORTING = "while importing the script"
_CPU_ALLOCATOR = "DefaultCPUAllocator: "
"""How torch's message begins when the machine's memory is spent; the error is a RuntimeError."""
_NO_CUDA = (
    "Torch not compiled with CUDA enabled",
    "NVTX functions not installed",
    "Found no NVIDIA driver",
    "on a CUDA device but torch.cuda.is_available() is False",
    "PyTorch is not linked with support for cuda devices",
)
"""What torch says where it has no GPU to work with."""


def _hint(error: BaseException, message: str) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "run decodeprof with the Python that runs the script"
    if any(words in message for words in _NO_CUDA):
        return (
            "the script asks for CUDA, and this torch has none to give: `decodeprof doctor` says "
            "why; on a CPU the script must not name the device"
        )
    if "CUDA error" in message:
        return "CUDA reports errors late: CUDA_LAUNCH_BLOCKING=1 shows the true line"
    return ""


def _message(error: BaseException, places: Places) -> str:
    # A syntax error's own lines hold the file and the place, which no frame does.
    text = "".join(traceback.format_exception_only(error)).strip()
    for prefix, short in places.prefixes:
        text = text.replace(prefix, short)
    lines = text.splitlines()
    if len(lines) > _MAX_MESSAGE_LINES:
        lines = [*lines[:_MAX_MESSAGE_LINES], "…"]
    return "\n".join(
        line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 1]}…"
        for line in lines
    )


def _members(error: BaseException, places: Places) -> list[str]:
    """What a group of exceptions holds, each with the line that raised it."""
    if not isinstance(error, BaseExceptionGroup):
        return []
    found = list(_leaves(error))
    lines = []
    for member in found[:_MAX_MEMBERS]:
        lines.append(f"- {_message(member, places)}")
        lines += [f"  {frame}" for frame in user_frames(member, places)[-1:]]
    if len(found) > _MAX_MEMBERS:
        lines.append(f"- and {len(found) - _MAX_MEMBERS} more")
    return lines


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for member in group.exceptions:
        if isinstance(member, BaseExceptionGroup):
            yield from _leaves(member)
        else:
            yield member


def _causes(error: BaseException, places: Places) -> list[str]:
    """What led to an exception, nearest first: what it was raised from, or while handling."""
    lines: list[str] = []
    seen = {id(error)}
    for _ in range(_MAX_CAUSES):
        cause = error.__cause__
        how = "caused by"
        if cause is None and not error.__suppress_context__:
            cause, how = error.__context__, "while handling"
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        lines.append(f"{how} {_message(cause, places)}")
        lines += [f"  {frame}" for frame in user_frames(cause, places)[-_CAUSE_FRAMES:]]
        error = cause
    return lines


def user_frames(error: BaseException, places: Places, *, users_alone: bool = False) -> list[str]:
    """The traceback's lines in the user's own files.

    Args:
        error: what was raised.
        places: tells the user's files from others, and shortens names.
        users_alone: leave the innermost one out where it is in no file of the user's.
    """
    frames: list[tuple[Frame, str]] = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith((*_OWN_PREFIXES, "importlib", "asyncio")):
            continue
        code = frame.f_code
        shown = Frame(code.co_filename, line, code.co_qualname)
        frames.append((shown, _source(shown)))
    users = [each for each in frames if not places.is_package(each[0].file)]
    chosen = users if users_alone else users or frames[-3:]
    if frames and frames[-1] not in chosen and not users_alone:
        chosen = [*chosen, frames[-1]]
    if len(chosen) > _MAX_SHOWN_FRAMES:
        chosen = [*chosen[:2], *chosen[2 - _MAX_SHOWN_FRAMES :]]
    return [f"{places.shown(frame)}{text}" for frame, text in chosen]


def _source(frame: Frame) -> str:
    text = traceback.FrameSummary(frame.file, frame.line, frame.function).line
    return f": {text}" if text else ""
