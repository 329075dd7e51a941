"""How is a name from a trace written so that a person can read it and it can do no harm?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LONGEST = 400
"""Characters of one text that a report shows: no real source line or kernel name needs more, and
ten thousand would bury the rest."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Control characters (a terminal obeys them), formatting characters (they reverse or hide what
# follows), surrogates (they cannot be written), line and paragraph separators.
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def cleaned(text: str) -> str:
    """The text on one line, with what could change a page's or a terminal's structure replaced."""
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(_safe(character) for character in text)


def _safe(character: str) -> str:
    if character in "\t\n":
        return " "
    return REPLACEMENT if unicodedata.category(character) in _HARMFUL else character


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# Kernels that do anything: what they do is named among their template arguments.
_GENERIC = re.compile(
    r"\w*elementwise_kernel\w*|reduce_kernel|index_kernel\w*|multi_tensor_apply_kernel|Kernel2?"
    r"|device_kernel|_kernel_agent|Device\w*Kernel"
)
_TELLING = re.compile(
    r"(?P<name>\w+?)_kernel(_cuda|_impl|_cuda_out)?|launch_(?P<launched>\w+)|(?P<out>\w+)_cuda_out"
    r"|CUDAFunctor(OnSelf|OnOther)?_(?P<functor>\w+)|(?P<binary>\w+?)Functor|(?P<ops>\w+)Ops"
    r"|(?P<small>\w+)_functor|(?P<library>(cutlass|sm\d+|flash|Flash)\w+)"
)
# What runs on the device and is no kernel; its name is a phrase: "Memcpy HtoD (Pinned -> Device)".
_PHRASES = ("Memcpy", "Memset", "CUDA graph")
# Generic kernels whose own name adds nothing to what they apply.
_EMPTY_SHELLS = frozenset({"Kernel", "Kernel2", "device_kernel"})
# Wrappers that only carry the telling part further in.
_WRAPPERS = frozenset(
    {
        "gpu_kernel_impl_nocast",
        "gpu_kernel_impl",
        "gpu_kernel",
        "opmath_gpu_kernel",
        "BinaryFunctor",
        "AUnaryFunctor",
        "BUnaryFunctor",
        "opmath_symmetric_gpu_kernel_with_scalars",
    }
)
# Of names that differ in their middle: a quarter tells the kind of kernel, and a few characters
# before the difference tell what differs.
_BEGIN_SHARE = 4
_BEFORE_DIFFERENCE = 8
_LENGTH = re.compile(r"[1-9]\d{0,3}")
_WRAPPED = re.compile(r"NS\d*_([1-9]\d{0,3})")
# Kernels are templates of templates; deeper than this no telling part was ever found.
_DEEPEST = 64


def short_kernel_name(name: str) -> str:
    """A kernel's own name, without namespaces, template arguments and parameters.

    A generic kernel is told apart by what it applies: ``vectorized_elementwise_kernel: add``.
    """
    if name.startswith(_PHRASES):
        return name
    if name.startswith("_Z"):
        return _from_mangled(name)
    bare = _declared_name(name.replace("(anonymous namespace)::", ""))
    head, arguments = _split_template(bare)
    own = head.rsplit("::", 1)[-1].strip() or name
    if not arguments or not _GENERIC.fullmatch(own):
        return own
    telling = _telling_part(arguments)
    if not telling:
        return own
    return telling if own in _EMPTY_SHELLS else f"{own}: {telling}"


def fitted(name: str, width: int) -> str:
    """The name in at most `width` characters, its middle left out: both ends tell kernels apart."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 3
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def told_apart(names: Sequence[str], width: int) -> list[str]:
    """Names in at most `width` characters each, no two different ones alike as far as can be.

    Where leaving the middles out makes two alike, what is left out is what they share.
    """
    shown = [fitted(name, width) for name in names]
    alike: dict[str, set[str]] = {}
    for name, short in zip(names, shown, strict=True):
        alike.setdefault(short, set()).add(name)
    return [
        short if len(alike[short]) == 1 else _from_the_difference(name, alike[short], width)
        for name, short in zip(names, shown, strict=True)
    ]


def _from_the_difference(name: str, others: set[str], width: int) -> str:
    """The name's beginning, and what comes from where the first of the names differs."""
    begin = width // _BEGIN_SHARE
    # Between the first and the last in order lie all differences.
    first, last = min(others), max(others)
    pairs = enumerate(zip(first, last, strict=False))
    differs = next((at for at, (a, b) in pairs if a != b), min(len(first), len(last)))
    room = width - begin - 1
    rest = name[max(begin, min(differs - _BEFORE_DIFFERENCE, len(name) - room)) :]
    return f"{name[:begin]}…{rest if len(rest) <= room else rest[: room - 1] + '…'}"


def _from_mangled(name: str) -> str:
    """The last part of a mangled nested name; of `kentry`, a bare wrapper, what it wraps."""
    parts: list[str] = []
    position = 3 if name.startswith("_ZN") else 2
    while len(parts) < _DEEPEST and (digits := _LENGTH.match(name, position)):
        start = digits.end()
        position = start + int(digits.group())
        parts.append(name[start:position])
    if parts and parts[-1] == "kentry" and (inner := _WRAPPED.search(name, position)):
        return name[inner.end() : inner.end() + int(inner.group(1))]
    return parts[-1] if parts else name


def _declared_name(name: str) -> str:
    """The name between the return type and the parameters; neither stands inside a template."""
    angles = parentheses = start = 0
    for position, character in enumerate(name):
        if character == "(":
            if angles == 0 and position > start:
                return name[start:position]
            parentheses += 1
        elif character == ")":
            parentheses -= 1
        elif parentheses:  # a comparison, or a template that closes again
            continue
        elif character == "<":
            angles += 1
        elif character == ">":
            angles -= 1
        elif character == " " and angles == 0:
            start = position + 1
    return name[start:] or name


def _split_template(name: str) -> tuple[str, str]:
    opening = name.find("<")
    return (name, "") if opening < 0 else (name[:opening], name[opening + 1 :])


def _telling_part(arguments: str) -> str:
    for found, match in enumerate(_IDENTIFIER.finditer(arguments)):
        if found > _DEEPEST:
            break
        word = match.group()
        if word in _WRAPPERS:
            continue
        told = _TELLING.fullmatch(word)
        if told:
            return next(part for part in told.groupdict().values() if part)
    return ""


def place(file: str | None, line_number: int | None) -> str:
    """``file:line``, or what of it is known."""
    if file is None:
        return "place unknown"
    return file if line_number is None else f"{file}:{line_number}"
