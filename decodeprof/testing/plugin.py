"""The pytest plugin: fixtures and markers that hold a test to few blocking calls and launches.

pytest loads it by the package's entry point. Until a test uses it, it imports nothing but pytest.
"""

from __future__ import annotations

import sys
import textwrap
import typing
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest

if typing.TYPE_CHECKING:
    from decodeprof.testing.launches import max_launches as MaxLaunches
    from decodeprof.testing.syncs import no_syncs as NoSyncs

# The profiler comes first, so that what it does itself is not laid to the test.
_MARKERS = {
    "max_launches": "max_launches(limit, step=None): fail when the test, or with `step` each or "
    "one of the steps that it marks with decodeprof.step(), launches more than that",
    "no_syncs": "no_syncs(allow=0): fail when the test blocks the host more often than that",
}
_LONGEST_REASON = 160
"""Of a skip, in characters; torch's own messages can fill a page."""
_SURROUNDINGS = pytest.StashKey[ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for text in _MARKERS.values():
        config.addinivalue_line("markers", text)


@pytest.fixture(name="no_syncs")
def _no_syncs() -> type[NoSyncs]:
    """`decodeprof.testing.no_syncs`; without a CUDA device the whole test pretends to have one."""
    from decodeprof.testing.syncs import no_syncs

    return no_syncs


@pytest.fixture(name="max_launches")
def _max_launches() -> type[MaxLaunches]:
    """`decodeprof.testing.max_launches`; the test skips where launches cannot be counted."""
    _skip_unless_counted()
    from decodeprof.testing.launches import max_launches

    return max_launches


# The innermost of the wrappers: the others count on each other, whatever is raised here.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Check a marked test's arguments, and skip it before its fixtures do any work.

    Without a CUDA device, a test that uses `no_syncs` pretends to have one from here on, so that
    its fixtures can put a model there.
    """
    if any(item.get_closest_marker(name) for name in _MARKERS):
        _guards(item)
    if _uses(item, "max_launches"):
        _skip_unless_counted()
    if _uses(item, "no_syncs"):
        item.stash[_SURROUNDINGS] = _surroundings()
    with _skips_told(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run a marked test under its guards: its own time alone, without its fixtures'."""
    with _skips_told(item), ExitStack() as stack:
        for guard in _guards(item):
            stack.enter_context(_WithoutTraceback(guard))
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Take down what stood around a test, after its fixtures."""
    try:
        return (yield)
    finally:
        surroundings = item.stash.get(_SURROUNDINGS, None)
        if surroundings is not None:
            del item.stash[_SURROUNDINGS]
            surroundings.close()


def _uses(item: pytest.Item, name: str) -> bool:
    """Whether a test has the marker or the fixture of a name."""
    return item.get_closest_marker(name) is not None or name in getattr(item, "fixturenames", ())


def _surroundings() -> ExitStack:
    from decodeprof.testing.backend import CannotWatch, backend

    stack = ExitStack()
    try:
        stack.enter_context(backend().surroundings())
    except CannotWatch as error:
        raise _skipped(error) from None
    return stack


@contextmanager
def _skips_told(item: pytest.Item) -> Generator[None, None, None]:
    """Turn what says that nothing can be told here into a skip at the test's own place."""
    try:
        yield
    # Whatever it is goes on, but for what a device that is only pretended cannot do.
    except BaseException as error:
        loaded = sys.modules.get("decodeprof.testing.backend")
        if loaded is not None and isinstance(error, loaded.CannotWatch):
            raise _skipped(error) from None
        if _only_pretended(item) and _needs_real_gpu(error):
            said = textwrap.shorten(str(error), _LONGEST_REASON, placeholder=" …")
            raise _skipped(
                f"torch finds no CUDA device, and this test needs one: "
                f"{type(error).__name__}: {said}"
            ) from error
        raise


def _only_pretended(item: pytest.Item) -> bool:
    if _SURROUNDINGS not in item.stash:
        return False
    from decodeprof.testing.backend import backend

    return backend().predicts


def _needs_real_gpu(error: BaseException) -> bool:
    from decodeprof.lint.real_gpu import needs_real_gpu

    return isinstance(error, Exception) and needs_real_gpu(error)


class _WithoutTraceback:
    """A guard whose own failure is its message alone: frames of this plugin tell nothing."""

    def __init__(self, guard: AbstractContextManager[Any]) -> None:
        self._guard = guard

    def __enter__(self) -> None:
        self._guard.__enter__()

    def __exit__(self, *raised: Any) -> None:
        from decodeprof.errors import DecodeprofError

        try:
            self._guard.__exit__(*raised)
        except (AssertionError, DecodeprofError) as error:
            if raised[1] is error:
                raise
            raise pytest.fail.Exception(str(error), pytrace=False) from None


def _guards(item: pytest.Item) -> list[AbstractContextManager[Any]]:
    """What a test's markers ask for; the nearest marker of each name counts."""
    guards: list[AbstractContextManager[Any]] = []
    for name in _MARKERS:
        marker = item.get_closest_marker(name)
        if marker is not None:
            guards.append(_guard(name, marker))
    return guards


def _guard(name: str, marker: pytest.Mark) -> AbstractContextManager[Any]:
    from decodeprof.testing import max_launches, no_syncs

    make: Any = {"no_syncs": no_syncs, "max_launches": max_launches}[name]
    try:
        guard: AbstractContextManager[Any] = make(*marker.args, **marker.kwargs)
    except TypeError as error:
        # Python says which argument is missing or is one too many, of a method nobody named.
        usage = _MARKERS[name].partition(":")[0]
        told = f"{str(error).rpartition('__init__() ')[2]}; it is written @pytest.mark.{usage}"
    except ValueError as error:
        told = str(error)
    else:
        return guard
    pytest.fail(f"@pytest.mark.{name}: {told}", pytrace=False)


def _skip_unless_counted() -> None:
    from decodeprof.testing.backend import CannotWatch, backend

    try:
        why = backend().why_uncounted
    except CannotWatch as error:
        why = str(error)
    if why:
        raise _skipped(why)


def _skipped(why: object) -> BaseException:
    """A skip whose place is the test, and not the file that found out."""
    return pytest.skip.Exception(str(why), _use_item_location=True)
