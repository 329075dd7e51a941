"""What went wrong in the user's code, in words: their frames, not ours and not torch's."""

from __future__ import annotations

import traceback

from decodeprof.capture.job import Failed
from decodeprof.capture.places import Frame, Places
from decodeprof.errors import DecodeprofError, UsageError

_MAX_SHOWN_FRAMES = 12
_MAX_MESSAGE_LINES = 6
_OWN_PREFIXES = (__name__.rpartition(".")[0], "decodeprof.mark")
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
        return Failed(
            what=f"the target called sys.exit({shown}) {during}",
            why=frames,
            hint="keep it below `if __name__ == '__main__':`, or return instead",
        )
    if interrupted:
        return Failed(what=f"stopped by Ctrl-C {during}", why=frames)
    message = _message(error, places)
    if type(error).__name__ == "OutOfMemoryError":
        return Failed(
            what=f"the GPU ran out of memory {during}",
            why=f"{frames}\n{message}".strip(),
            hint="lower the batch or the length with `--arg`; nothing else may hold the GPU's "
            "memory: `nvidia-smi`",
        )
    if isinstance(error, MemoryError):
        return Failed(
            what=f"the machine ran out of memory {during}",
            why=f"{frames}\n{message}".strip(),
            hint="lower the batch, the length or the model's size",
        )
    what = f"the target raised {type(error).__name__} {during}"
    return Failed(what=what, why=f"{frames}\n{message}".strip(), hint=_hint(error))


def _hint(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "run decodeprof with the Python that runs the script"
    if "CUDA error" in str(error):
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
    return "\n".join(lines)


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
