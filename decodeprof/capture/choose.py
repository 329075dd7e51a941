"""Which of the calls that a target makes begins a step?

A loop may call one module a token, or the embedding, each layer, the norm and the head by
themselves, or replay a CUDA graph after a prefill by a module. The order of the outermost calls,
seen once in full, decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class OutermostCall:
    """A forward of a module that no other module called, or a graph's replay outside of any."""

    key: Hashable
    """Which module or graph."""
    query: int | None = None
    """Query length; None: unknown."""


@dataclass(frozen=True)
class Choice:
    """The calls that begin steps."""

    keys: frozenset[Hashable]
    ambiguous: bool = False
    """No call recurs once a token, so the likeliest was taken."""


def choose(calls: Sequence[OutermostCall], *, tokens: int | None) -> Choice:
    """Choose the call that recurs once a token: the first one in the order of a step.

    A module that is called once, before the recurring one, is the prefill where the recurring
    one alone makes a token too few, or, with the number of tokens unknown, where the recurring
    one never sees a longer query.

    Args:
        calls: all outermost calls of one call of the target, in order.
        tokens: new tokens of that call, where they were counted otherwise than by forwards.
    """
    counts = Counter(call.key for call in calls)
    order = list(dict.fromkeys(call.key for call in calls))
    if len(order) <= 1:
        return Choice(frozenset(order))
    recurring = [key for key in order if counts[key] > 1]
    main, ambiguous = _main(recurring, counts, tokens)
    if main is None or (ambiguous and tokens is not None and abs(len(calls) - tokens) <= 1):
        # Another one each time: a graph for each length, or a module for each step.
        return Choice(frozenset(order))
    lead = _prefill(calls, main, counts, tokens)
    return Choice(frozenset({main} if lead is None else {main, lead}), ambiguous)


def _main(
    recurring: list[Hashable], counts: Counter[Hashable], tokens: int | None
) -> tuple[Hashable | None, bool]:
    if not recurring:
        return None, False
    if tokens is not None:
        # A prefill by another module leaves one fewer, a last forward that is not needed one more.
        for wanted in (tokens, tokens - 1, tokens + 1):
            for key in recurring:
                if counts[key] == wanted:
                    return key, False
    # The count that most of the recurring calls share is the number of steps.
    shared = Counter(counts[key] for key in recurring)
    # Of equals the earliest: a step begins with its first call.
    main = max(recurring, key=lambda key: shared[counts[key]])
    return main, len(shared) > 1


def _prefill(
    calls: Sequence[OutermostCall],
    main: Hashable,
    counts: Counter[Hashable],
    tokens: int | None,
) -> Hashable | None:
    before: list[OutermostCall] = []
    queries = []
    for call in calls:
        if call.key == main:
            queries.append(call.query)
        elif not queries and counts[call.key] == 1:
            before.append(call)
    if not before:
        return None
    if tokens is not None:
        enough = counts[main] >= tokens
    else:
        enough = (queries[0] or 1) > 1 and queries[-1] is not None and queries[0] != queries[-1]
    if enough:
        return None
    long = [call for call in before if (call.query or 1) > 1]
    return (long or before)[0].key
