"""How does a trace that is almost JSON become JSON, with nothing invented?

Real files hold bare ``inf`` and ``NaN`` (a copy of no duration has an infinite bandwidth), bytes
that are no UTF-8, control characters and lone backslashes (Windows paths) in names, quotes in names
that nobody escaped, and log lines. A strict decoder refuses such a text whole. This second pass,
made only then and only where it is needed, changes these and nothing else: values become null, and
characters inside strings become ones that JSON allows.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter

# A string, or one of the words that are no JSON. Strings are matched so that words inside them
# are left alone; one that does not end goes to the text's end, which no change makes JSON.
_PIECE = re.compile(
    r'"(?P<string>(?:[^"\\]|\\.)*+)(?P<end>"?)|(?P<word>[-+]?\b(?:inf|infinity|nan)\b)',
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x1f]")
# A backslash and what it escapes, in this order: a whole surrogate pair, half of one (which is no
# character), what JSON allows, and anything else.
_ESCAPE = re.compile(
    r"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r'|(?P<good>\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))'
    r"|\\"
)
_REPLACEMENT = "\ufffd"
# What Kineto's logger writes (severity, date, time, process and thread, source line), and glog's,
# which Kineto uses inside some builds of torch: ``I1128 12:00:00.123456 1234 file.cpp:92] text``.
_LOG_LINE = re.compile(
    rb"^[ \t]*(?:(?:VERBOSE|DEBUG|INFO|WARNING|ERROR|STAGE):[ \t]?\d{4}-\d\d-\d\d|"
    rb"[VIWEF](?:\d{4}|\d{8})) \d\d:\d\d:\d\d.*\n?",
    re.MULTILINE,
)
# A field whose value is text, and the quote that ends it: another field or the event's end follows.
# They are sought apart, so that a text with many beginnings and no end takes no longer.
_TEXT_BEGIN = re.compile(rb'"(?:name|cat)"[ \t]*:[ \t]*"')
_TEXT_END = re.compile(
    rb'"(?=\s*(?:(?:,\s*)?"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"[ \t]*:|\}))'
)
_LONE_QUOTE = re.compile(rb'(?<!\\)((?:\\\\)*)"')

LARGEST_BYTES = 16 << 20
"""What is larger is left as it is: it is no event, and each quote in it may take 30 bytes here."""
NOT_UTF8 = "characters that are not UTF-8 were replaced"
NO_NUMBER = "infinite values and NaN were left out"
FORBIDDEN = "texts with characters that JSON forbids were mended"
QUOTES = "texts with quotes that were not escaped were mended"
LOG_LINES = "log lines were left out"


def mend(data: bytes) -> tuple[bytes, Counter[str]]:
    """Make JSON out of almost-JSON.

    Returns:
        The text, and how often each sort of change was made; nothing when nothing was changed.
    """
    changes: Counter[str] = Counter()
    if len(data) > LARGEST_BYTES:
        return data, changes
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        changes[NOT_UTF8] += text.count(_REPLACEMENT)

    def piece(match: re.Match[str]) -> str:
        inner = match["string"]
        if inner is None:
            changes[NO_NUMBER] += 1
            return "null"
        if not match["end"] or ("\\" not in inner and not _CONTROL.search(inner)):
            return match[0]
        mended = _CONTROL.sub(" ", inner)
        mended = _ESCAPE.sub(_escape, mended)
        if mended != inner:
            changes[FORBIDDEN] += 1
        return f'"{mended}"'

    return _PIECE.sub(piece, text).encode("utf-8"), changes


def escape_quotes(data: bytes) -> tuple[bytes, Counter[str]]:
    """Escape the quotes inside names: a name ends where another field of the event begins."""
    changes: Counter[str] = Counter()
    if len(data) > LARGEST_BYTES:
        return data, changes
    ends = [match.start() for match in _TEXT_END.finditer(data)]
    pieces: list[bytes] = []
    at = 0
    for begin in _TEXT_BEGIN.finditer(data):
        if begin.start() < at:  # It stands inside a name.
            continue
        following = bisect_left(ends, begin.end())
        if following == len(ends):
            break
        old = data[begin.end() : ends[following]]
        text = _LONE_QUOTE.sub(rb'\1\\"', old)
        # A folder's name may end in a backslash, which would escape the closing quote.
        if (len(text) - len(text.rstrip(b"\\"))) % 2:
            text += b"\\"
        changes[QUOTES] += text != old
        pieces += [data[at : begin.end()], text]
        at = ends[following]
    return b"".join([*pieces, data[at:]]), +changes


def without_log_lines(data: bytes) -> tuple[bytes, Counter[str]]:
    """Take out lines that a logger wrote into the file."""
    text, count = _LOG_LINE.subn(b"", data)
    return text, Counter({LOG_LINES: count} if count else {})


def _escape(match: re.Match[str]) -> str:
    if match["half"]:
        return _REPLACEMENT
    return match[0] if match["pair"] or match["good"] else "\\\\"
