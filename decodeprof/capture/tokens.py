"""How many tokens did one call make?

Counted from what it yields or returns. A returned sequence may hold the prompt as well: it does
when it begins with an argument's values, or when it is exactly as long as the first forward's
query plus one token for each forward.

Lists of equal length, or the rows of a tensor, are the sequences of a batch, one each; or the
steps, each with one token of every sequence. They are steps where an argument or the forwards say
that the batch is as large as each list and not as many as the lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

YIELDED_LISTS = "yielded lists"
"""How tokens were counted, where each yield is a list of numbers of unknown meaning."""
UNCLEAR_LISTS = "returned lists"
"""How tokens were counted, where the returned lists may be sequences as well as steps."""
_MAX_COMPARED = 65_536
"""Values kept of a returned sequence, to compare calls and to find the prompt in it."""


@dataclass(frozen=True)
class Counted:
    """Tokens of one call for each sequence of its batch; None: cannot be told."""

    tokens: int | None
    batch: int | None
    source: str
    """yields | yielded lists | returned list | returned lists | --new-tokens | forwards |
    unknown."""
    values: tuple[int, ...] = ()
    """The first sequence's tokens, where they are numbers."""
    seen: int | None = None
    """What was counted where the user stated a number; None: nothing could be."""


@dataclass(frozen=True)
class Returned:
    """What one call gave back."""

    kind: str
    """function | generator | coroutine | async_generator."""
    value: Any = None
    items: tuple[Any, ...] = ()
    """What a generator yielded, where it was kept."""
    yields: int = 0


@dataclass(frozen=True)
class _Rows:
    rows: tuple[tuple[int, ...], ...]

    @property
    def length(self) -> int:
        return max(len(row) for row in self.rows)


@dataclass(frozen=True)
class _Batches:
    """What tells whether returned lists are sequences or steps; see `count`."""

    forwards: int
    first: int | None
    asked: int | None
    swept: int | None

    def of_steps(self, rows: _Rows) -> bool | None:
        """Whether each of the lists is a step, with one token of every sequence; None: unclear."""
        steps, lengths = len(rows.rows), {len(row) for row in rows.rows}
        if len(lengths) > 1 or steps in (1, rows.length, self.asked):
            return False
        if rows.length == self.asked:
            return True
        if rows.length == self.first and steps == self.forwards:
            return True
        return None if rows.length == self.swept else False


def count(
    returned: Returned,
    *,
    arguments: Mapping[str, Any],
    first_query: int | None,
    forwards: int,
    stated: int | None,
    first_batch: int | None = None,
    asked_batch: int | None = None,
    swept: int | None = None,
) -> Counted:
    """Count the tokens of a call.

    Args:
        returned: what it yielded or returned; GPU tensors are copied to the host.
        arguments: what it was called with, for finding the prompt in what it returned.
        first_query: query length of the first forward, where one was seen.
        forwards: outermost forwards and graph replays that were seen.
        stated: the user's `--new-tokens`.
        first_batch: batch of the first forward, where one was seen.
        asked_batch: sequences that an argument asks for, where its name says so.
        swept: value of a swept argument whose name tells neither sequences nor tokens.
    """
    counted: Counted | None
    if "generator" in returned.kind:
        counted = _yielded(returned, first_batch)
    else:
        batches = _Batches(forwards, first_batch, asked_batch, swept)
        counted = _returned(returned.value, arguments, first_query, batches)
    if stated is not None:
        seen = counted or Counted(None, None, "unknown")
        return Counted(stated, seen.batch, "--new-tokens", seen.values, seen.tokens)
    if counted is not None:
        return counted
    if forwards:
        return Counted(forwards, None, "forwards")
    return Counted(None, None, "unknown")


def _yielded(returned: Returned, first_batch: int | None) -> Counted:
    items = returned.items
    rows = _as_rows(list(items), flat=True) if items else None
    values = rows.rows[0] if rows else ()
    if items and _is_tensor(items[0]) and items[0].dim() >= 1:
        return Counted(returned.yields, int(items[0].shape[0]), "yields", values)
    lengths = {_list_length(item) for item in items}
    longest = max(lengths, default=0)
    if longest <= 1:
        return Counted(returned.yields, 1, "yields", values)
    if lengths == {first_batch}:
        return Counted(returned.yields, first_batch, "yields", values)
    # One token for each sequence of a batch, or several of one sequence: nothing tells.
    return Counted(returned.yields, None, YIELDED_LISTS, values)


def _list_length(item: Any) -> int:
    """How many numbers a yielded list or tuple holds; 0 for what is none."""
    if not isinstance(item, list | tuple):
        return 0
    return len(item) if all(_cell(each) is not None for each in item) else 0


def _returned(
    value: Any, arguments: Mapping[str, Any], first_query: int | None, batches: _Batches
) -> Counted | None:
    found, forwards = _find_rows(value), batches.forwards
    if found is None or not found.length:
        return None
    of_steps = batches.of_steps(found)
    if of_steps is None:
        return Counted(None, None, UNCLEAR_LISTS)
    if of_steps:
        first = tuple(row[0] for row in found.rows)
        return Counted(len(found.rows), found.length, "returned list", first)
    # As many as the forwards: nothing but new tokens, whatever they happen to begin with.
    prompt = 0 if found.length == forwards else _prompt_length(found, arguments)
    if prompt == 0 and first_query and found.length == first_query + forwards:
        prompt = first_query
    values = found.rows[0][prompt:]
    return Counted(found.length - prompt, len(found.rows), "returned list", values)


def _find_rows(value: Any) -> _Rows | None:
    # What `transformers` returns with `return_dict_in_generate`.
    value = getattr(value, "sequences", value)
    rows = _as_rows(value, flat=False)
    if rows is None and isinstance(value, tuple):
        candidates = (_as_rows(each, flat=False) for each in value)
        rows = next((each for each in candidates if each is not None), None)
    if rows is None and isinstance(value, Mapping):
        candidates = (_as_rows(each, flat=False) for each in value.values())
        rows = next((each for each in candidates if each is not None), None)
    return rows


def _as_rows(value: Any, *, flat: bool) -> _Rows | None:
    """Integer sequences as rows: a list, a list of lists, or a tensor of one or two dimensions."""
    if _is_tensor(value):
        return _tensor_rows(value)
    if not isinstance(value, list) or not value:
        return None
    cells = [_cell(each) for each in value]
    if all(cell is not None for cell in cells):
        return _Rows((tuple(cell for cell in cells if cell is not None),))
    if flat:
        return None
    rows = [_as_rows(each, flat=True) for each in value]
    if any(row is None or len(row.rows) != 1 for row in rows):
        return None
    return _Rows(tuple(row.rows[0] for row in rows if row is not None))


def _tensor_rows(value: Any) -> _Rows | None:
    integer = not value.is_floating_point() and not value.is_complex()
    if not integer or value.dim() not in (1, 2) or "bool" in str(value.dtype):
        return None
    if value.numel() > _MAX_COMPARED:
        # Too many to compare: their number is all that is needed.
        rows = 1 if value.dim() == 1 else int(value.shape[0])
        return _Rows(((0,) * int(value.shape[-1]),) * rows)
    listed = value.tolist()
    return _Rows((tuple(listed),) if value.dim() == 1 else tuple(map(tuple, listed)))


def _cell(value: Any) -> int | None:
    """One token: an int, or an integer tensor whose first element stands for the batch."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if _is_tensor(value) and value.dim() <= 2 and value.numel() >= 1:
        if value.is_floating_point() or value.is_complex() or "bool" in str(value.dtype):
            return None
        # A list of whole rows is no list of tokens.
        if value.dim() == 1 and value.numel() > 1:
            return None
        return int(value.reshape(-1)[0])
    return None


def _prompt_length(found: _Rows, arguments: Mapping[str, Any]) -> int:
    """Length of the longest argument that the returned sequences begin with."""
    longest = 0
    for value in arguments.values():
        values = value.get("input_ids") if isinstance(value, Mapping) else value
        prompt = _as_rows(values, flat=False)
        if prompt is None or prompt.length >= found.length:
            continue
        first = prompt.rows[0]
        if found.rows[0][: len(first)] == first:
            longest = max(longest, prompt.length)
    return longest


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and hasattr(value, "dim")
