"""What do the options of a sweep mean that are lists of numbers?"""

from __future__ import annotations

from decodeprof.errors import UsageError

MOST_VALUES = 200
"""A curve needs some ten; each point takes seconds."""
MOST_DIGITS = 10
"""No axis and no histogram goes so far; Python reads no number of thousands of digits."""


def vary_of(text: str) -> tuple[str, tuple[int, ...]]:
    """Split ``batch=1,2,4`` into its name and its values.

    Raises:
        UsageError: it is no such text, or a value stands there twice.
    """
    name, equals, values = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(
            f"`--vary {text}` names nothing to vary", hint="write `--vary batch=1,2,4,8`"
        )
    found = _numbers(values, option="--vary")
    if len(found) > MOST_VALUES:
        raise UsageError(f"{len(found)} values are too many", why=f"at most {MOST_VALUES}")
    return name.strip(), found


def buckets_of(text: str) -> list[int]:
    """Read ``1,2,4,8``.

    Raises:
        UsageError: it is no such text.
    """
    return list(_numbers(text, option="--buckets"))


def histogram_of(text: str) -> dict[int, int]:
    """Read ``1:50,3:30``: how often each size occurs.

    Raises:
        UsageError: it is no such text, or a size stands there twice.
    """
    found: dict[int, int] = {}
    for part in text.split(","):
        size, colon, count = part.partition(":")
        if not colon or not size.strip().isdecimal() or not count.strip().isdecimal():
            raise UsageError(
                f"`--live {text}` is no histogram", why=f"`{part}`", hint="write `--live 1:50,3:30`"
            )
        if max(len(size.strip()), len(count.strip())) > MOST_DIGITS:
            raise UsageError("`--live` holds a number that is too large", why=_too_long())
        if int(size) in found:
            raise UsageError(f"`--live` names the size {int(size)} twice")
        found[int(size)] = int(count)
    return found


def _numbers(text: str, *, option: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part:
            raise UsageError(
                f"`{option}` takes whole numbers of at least 1",
                why=f"`{text}` has nothing between the commas" if "," in text else "there is none",
            )
        if part.isdecimal() and len(part) > MOST_DIGITS:
            raise UsageError(f"`{option}` holds a number that is too large", why=_too_long())
        if not part.isdecimal() or int(part) < 1:
            raise UsageError(
                f"`{option}` takes whole numbers of at least 1", why=f"`{part}` is none"
            )
    numbers = tuple(int(part) for part in parts)
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"`{option}` names a value twice", why=text)
    return numbers


def _too_long() -> str:
    return f"at most {MOST_DIGITS} digits"
