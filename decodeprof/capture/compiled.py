"""What did torch.compile do, and why did it use no CUDA graph?

A step that compile cannot capture runs without one, and says so only in a log. The handler is
attached to those loggers alone, passes nothing on and takes nothing away from the user's own.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from typing import Any

import torch

from decodeprof.capture.places import Places
from decodeprof.recording import CompileEvent, CompileInfo, CudagraphSkip

_MODULES = ("cudagraph_utils", "cudagraph_trees", "compile_fx", "scheduler")
_ARTIFACTS = ("cudagraphs", "perf_hints")
# The prefix may stand twice, and older releases say "cudagraph" or "disabling".
_SKIP = re.compile(r"(?:skipping|disabling) cudagraphs?\b(?: due to)?", re.I)
_WHERE = re.compile(r'File "([^"]+)", line (\d+)')
_GUARD = re.compile(r"^\s*(\d+/\d+):\s*")
# "reason=cpu ops, 2 ops" in one release, "partition due to …" in another.
_CUT = re.compile(r"\breason\s*=|partition(?:ed)? (?:due to|because)", re.I)
_PARTITIONS = re.compile(r"Created (\d+) graph partitions")
_WRAPPERS = "torch/_dynamo/"
_MAX_REASON_LENGTH = 600
_MAX_LISTED = 50


class CompileWatch:
    """Listens to compile's logs from before the script is imported."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._asked = False
        handler = _Handler(self._messages)
        for module in _MODULES:
            logging.getLogger(f"torch._inductor.{module}").addHandler(handler)
            for artifact in _ARTIFACTS:
                # How torch names the loggers that TORCH_LOGS switches.
                name = f"torch._inductor.{module}.__{artifact}"
                logging.getLogger(name).addHandler(handler)
        _let_partitions_through(self._messages)
        self._watch_modes()

    def _watch_modes(self) -> None:
        wrapper: Any = getattr(torch, "_TorchCompileInductorWrapper", None)
        if wrapper is None:
            return
        initialise = wrapper.__init__

        def watched(this: Any, *args: Any, **kwargs: Any) -> None:
            initialise(this, *args, **kwargs)
            config = getattr(this, "config", {})
            self._asked = self._asked or bool(config.get("triton.cudagraphs"))

        wrapper.__init__ = watched

    @property
    def used(self) -> bool:
        """Something was compiled in this process."""
        return compiled_graphs() > 0

    def info(self, places: Places) -> CompileInfo | None:
        """What compile did so far; None: nothing was compiled."""
        if not self.used:
            return None
        counters: Any = sys.modules["torch._dynamo.utils"].counters
        breaks = [
            _cut(places, f"{reason} (× {times})" if times > 1 else str(reason))
            for reason, times in counters["graph_break"].items()
        ]
        skips = self._skips(places)
        unexplained = counters["inductor"]["cudagraph_skips"] - sum(skip.count for skip in skips)
        if unexplained > 0:
            skips.append(CudagraphSkip(reason="no reason was logged", count=unexplained))
        partitions = [
            int(found[1]) for text in self._messages if (found := _PARTITIONS.search(text))
        ]
        config: Any = sys.modules.get("torch._inductor.config")
        always = bool(config is not None and config.triton.cudagraphs)
        return CompileInfo(
            graph_breaks=breaks[:_MAX_LISTED],
            recompiles=self._recompiles(places),
            events=[*_breaks(places), *_recompiled(places)][:_MAX_LISTED],
            cudagraph_skips=skips,
            cudagraphs_asked=self._asked or always,
            partitions=max(partitions, default=None),
            partition_reasons=self._partition_reasons(places),
            compiled_graphs=compiled_graphs(),
        )

    def _skips(self, places: Places) -> list[CudagraphSkip]:
        texts = Counter(
            text
            for text in self._messages
            # A small partition that gets no graph of its own is no function that gets none.
            if _SKIP.search(text) and not text.startswith("Partition")
        )
        skips = []
        for text, times in texts.items():
            found = _WHERE.search(text)
            where = f"{places.shorten(found[1])}:{found[2]}" if found else None
            skips.append(CudagraphSkip(reason=_cut(places, text), where=where, count=times))
        return skips[:_MAX_LISTED]

    def _partition_reasons(self, places: Places) -> list[str]:
        """Each reason with its line, which is logged after it, outermost frame first."""
        found: dict[str, str | None] = {}
        current: str | None = None
        for text in self._messages:
            where = _WHERE.search(text)
            if _CUT.search(text):
                current = _cut(places, text)
                found.setdefault(current, None)
            elif where is None and not text.startswith("     "):
                current = None
            elif where is not None and current is not None and not places.is_torch(where[1]):
                found[current] = f"{places.shorten(where[1])}:{where[2]}"
        return [f"{text} ({where})" if where else text for text, where in found.items()][
            :_MAX_LISTED
        ]

    @staticmethod
    def _recompiles(places: Places) -> list[str]:
        failures: Any = getattr(sys.modules["torch._dynamo.utils"], "guard_failures", {})
        return [
            _cut(places, f"{code.co_qualname}: {reason}")
            for code, reasons in failures.items()
            for reason in reasons
        ][:_MAX_LISTED]


def _breaks(places: Places) -> list[CompileEvent]:
    """Graph breaks by line. Where dynamo keeps no stacks, their texts alone are known."""
    reasons: Any = getattr(sys.modules["torch._dynamo.utils"], "graph_break_reasons", [])
    found: Counter[tuple[str, str | None, str]] = Counter()
    for each in reasons:
        if not getattr(each, "graph_break", True):
            continue
        frames = getattr(each, "user_stack", None) or []
        own = [frame for frame in frames if not places.is_torch(frame.filename)] or frames
        where, function = None, ""
        if own:
            where, function = f"{places.shorten(own[-1].filename)}:{own[-1].lineno}", own[-1].name
        found[_first_line(places, str(each.reason)), where, function] += 1
    return [
        CompileEvent(kind="graph_break", reason=reason, where=where, function=function, count=times)
        for (reason, where, function), times in found.items()
    ]


def _recompiled(places: Places) -> list[CompileEvent]:
    """Recompiles, each with a guard that failed."""
    failures: Any = getattr(sys.modules["torch._dynamo.utils"], "guard_failures", {})
    events = []
    for code, reasons in failures.items():
        for text in _one_for_each(list(map(str, reasons))):
            named = _WHERE.search(text)
            file, line = (named[1], named[2]) if named else (code.co_filename, code.co_firstlineno)
            # A wrapper of dynamo's own around what is compiled is no place of anyone's.
            ours = _WRAPPERS in file.replace("\\", "/")
            events.append(
                CompileEvent(
                    kind="recompile",
                    reason=_first_line(places, _GUARD.sub("", text)),
                    where=None if ours else f"{places.shorten(file)}:{line}",
                    function=code.co_name,
                )
            )
    return events


def _one_for_each(reasons: list[str]) -> list[str]:
    """One reason for each recompile.

    At a recompile dynamo notes why each of the versions compiled so far did not do, ``0/1: …``,
    ``0/0: …``: the version that is told of most often was there at each of them.
    """
    versions = [found[1] if (found := _GUARD.match(text)) else "" for text in reasons]
    # By frame, of which there are several where a function was compiled more than once.
    oldest: dict[str, str] = {}
    for version, _ in Counter(versions).most_common():
        oldest.setdefault(version.partition("/")[0], version)
    kept = {"", *oldest.values()}
    return [text for text, each in zip(reasons, versions, strict=True) if each in kept]


def _first_line(places: Places, text: str) -> str:
    """A text's first line, without the comment that dynamo sets behind a guard."""
    line = next((each for each in text.strip().splitlines() if each.strip()), "")
    return _cut(places, line.split("  #")[0])


class _ShownAsBefore(logging.Filter):
    """Keeps what is logged below the level that was shown before, and shows it to nobody else."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[list[str]] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is shown."""
        above = logging.getLogger(record.name).parent
        shown = above is None or record.levelno >= above.getEffectiveLevel()
        if not shown:
            for messages in self.kept:
                messages.append(record.getMessage())
        return shown


def _let_partitions_through(messages: list[str]) -> None:
    """Hear of partitions, which are logged for debugging alone; nobody else is shown more."""
    logger = logging.getLogger("torch._inductor.scheduler.__cudagraphs")
    known = next((each for each in logger.filters if isinstance(each, _ShownAsBefore)), None)
    if known is None:
        if logger.isEnabledFor(logging.DEBUG):
            return
        known = _ShownAsBefore()
        logger.addFilter(known)
        logger.setLevel(logging.DEBUG)
    known.kept.append(messages)


def compiled_graphs() -> int:
    """Graphs that dynamo has compiled in this process; 0 if it was never loaded."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    return 0 if utils is None else int(utils.counters["stats"]["unique_graphs"])


class _Handler(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._messages = messages
        self._last: logging.LogRecord | None = None

    def emit(self, record: logging.LogRecord) -> None:
        # An artifact's logger usually hands its records on to the module's, and both have us.
        if record is not self._last:
            self._messages.append(record.getMessage())
        self._last = record


def _cut(places: Places, text: str) -> str:
    for prefix, short in places.prefixes:
        text = text.replace(prefix, short)
    text = text.strip()
    return text if len(text) <= _MAX_REASON_LENGTH else text[: _MAX_REASON_LENGTH - 1] + "…"
