"""How does a trace that is almost JSON become JSON, with nothing invented?

Real files hold bare ``inf`` and ``NaN`` (a copy of no duration has an infinite bandwidth), bytes
that are no UTF-8, control characters and lone backslashes (Windows paths) in names. A strict
decoder refuses such a file whole. This second pass, made only then, changes these and nothing else:
values become null, and characters inside strings become ones that JSON allows.
"""

from __future__ import annotations

import re
from collections import Counter

# A string, or one of the words that are no JSON. Strings are matched so that words inside them
# are left alone.
_PIECE = re.compile(
    r'"(?P<string>(?:[^"\\]|\\.)*)"|(?P<word>[-+]?\b(?:inf|infinity|nan)\b)',
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


def mend(data: bytes) -> tuple[bytes, list[str]]:
    """Make JSON out of almost-JSON.

    Returns:
        The text, and one sentence for each sort of change; no sentence when nothing was changed.
    """
    changes: Counter[str] = Counter()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        changes["characters that are not UTF-8 were replaced"] += text.count(_REPLACEMENT)

    def piece(match: re.Match[str]) -> str:
        inner = match["string"]
        if inner is None:
            changes["infinite values and NaN were left out"] += 1
            return "null"
        if "\\" not in inner and not _CONTROL.search(inner):
            return match[0]
        mended = _CONTROL.sub(" ", inner)
        mended = _ESCAPE.sub(_escape, mended)
        if mended != inner:
            changes["texts with characters that JSON forbids were mended"] += 1
        return f'"{mended}"'

    text = _PIECE.sub(piece, text)
    return text.encode("utf-8"), [
        f"the file is not valid JSON: {what} ({count:,})" for what, count in sorted(changes.items())
    ]


def _escape(match: re.Match[str]) -> str:
    if match["half"]:
        return _REPLACEMENT
    return match[0] if match["pair"] or match["good"] else "\\\\"
