"""How is a target called: a function, a generator, a coroutine or an async generator?

What a call returns decides, not how it was written: a plain function may return a generator. This
file is where decodeprof ends and the target's own stack begins.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any, Protocol

from decodeprof.capture.tokens import Returned


class Asked(Protocol):
    """Is told when a generator is asked for an item, and when it answered."""

    def ask(self) -> None:
        """The next item is about to be asked for."""

    def answered(self, *, exhausted: bool) -> None:
        """It came, or there was none left."""


class Caller:
    """Calls a target to its end; all asynchronous calls share one event loop.

    An engine may keep objects that belong to the loop in which they were made, so the loop
    outlives the call.
    """

    def __init__(self, asked: Asked, *, most_items: int | None = None) -> None:
        """Prepare to call.

        Args:
            asked: told of each item.
            most_items: a generator is closed after so many, since it may never end by itself.
        """
        self._asked = asked
        self._most_items = most_items
        self._runner: asyncio.Runner | None = None

    def call(self, function: Callable[[], Any], *, keep_items: bool = False) -> Returned:
        """Call, and use up what a generator yields.

        Args:
            function: the target with its arguments.
            keep_items: keep what is yielded, for counting; it may hold memory of the GPU.
        """
        value = function()
        if inspect.isawaitable(value):
            value = self._run(_awaited(value))
            if isinstance(value, AsyncIterator):
                return self._drain_async(value, keep_items=keep_items)
            return Returned("coroutine", value)
        if isinstance(value, AsyncIterator):
            return self._drain_async(value, keep_items=keep_items)
        if isinstance(value, Iterator):
            return self._drain(value, keep_items=keep_items)
        return Returned("function", value)

    def plain(self, function: Callable[[], Any]) -> Any:
        """Call a set-up function: its value, awaited if need be."""
        value = function()
        return self._run(_awaited(value)) if inspect.isawaitable(value) else value

    def close(self) -> None:
        """End the event loop, if there was one."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _run(self, coroutine: Any) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine)

    def _drain(self, iterator: Iterator[Any], *, keep_items: bool) -> Returned:
        items: list[Any] = []
        yields = 0
        while True:
            self._asked.ask()
            try:
                item = next(iterator)
            except StopIteration as stop:
                self._asked.answered(exhausted=True)
                return Returned("generator", stop.value, tuple(items), yields)
            self._asked.answered(exhausted=False)
            yields += 1
            if keep_items:
                items.append(item)
            if yields == self._most_items:
                if isinstance(iterator, Generator):
                    iterator.close()
                return Returned("generator", None, tuple(items), yields)

    def _drain_async(self, iterator: AsyncIterator[Any], *, keep_items: bool) -> Returned:
        async def drain() -> Returned:
            items: list[Any] = []
            yields = 0
            while True:
                self._asked.ask()
                try:
                    item = await anext(iterator)
                except StopAsyncIteration:
                    self._asked.answered(exhausted=True)
                    return Returned("async_generator", None, tuple(items), yields)
                self._asked.answered(exhausted=False)
                yields += 1
                if keep_items:
                    items.append(item)
                if yields == self._most_items:
                    if isinstance(iterator, AsyncGenerator):
                        await iterator.aclose()
                    return Returned("async_generator", None, tuple(items), yields)

        returned: Returned = self._run(drain())
        return returned


async def _awaited(value: Any) -> Any:
    return await value
