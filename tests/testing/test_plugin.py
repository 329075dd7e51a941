"""The pytest plugin: found without configuration, free until used, and it skips with a reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from decodeprof.capture.places import Frame
from decodeprof.testing import backend as backends
from decodeprof.testing import launches, syncs
from decodeprof.testing.backend import Blocked, Profiled
from tests.testing.inner import ENTRY_POINT, MODULE, arguments, passed_in
from tests.testing.test_launches import marked_steps
from tests.write_kineto import write

pytest_plugins = ["pytester"]


def without_cuda() -> bool:
    torch = pytest.importorskip("torch")
    return not torch.cuda.is_available()


def test_the_package_names_the_plugin_as_pytest_looks_for_it() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {ENTRY_POINT: MODULE}


def test_until_it_is_used_it_imports_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            heavy = {"torch", "numpy", "msgspec", "rich", "click"} & set(sys.modules)
            own = {name for name in sys.modules if name.startswith("decodeprof")}
            assert not heavy
            assert own <= {"decodeprof", "decodeprof.testing", "decodeprof.testing.plugin"}
        """
    )
    pytester.runpytest_subprocess(*arguments()).assert_outcomes(passed=1)


USES = """
    import pytest
    from decodeprof.testing import max_launches

    @pytest.fixture
    def model():
        raise RuntimeError("a skipped test must not load its model")

    def test_fixture(max_launches):
        raise RuntimeError("not run")

    @pytest.mark.max_launches(700)
    def test_marker(model):
        pass

    @pytest.mark.no_syncs
    @pytest.mark.max_launches(700)
    def test_both_markers(model):
        pass

    def test_context_manager():
        with max_launches(3):
            raise RuntimeError("not run")

    def test_other():
        pass
"""


def test_without_cuda_what_counts_launches_skips_and_says_why(pytester: pytest.Pytester) -> None:
    if not without_cuda():
        pytest.skip("there is a CUDA device")
    result = passed_in(pytester, USES)
    result.assert_outcomes(passed=1, skipped=4)
    skips = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert skips
    for line in skips:
        # The place is in the test file, whichever way the test came to its skip.
        assert "] test_without_cuda_what_counts_launches_skips_and_says_why.py:" in line
        assert "counted on a CUDA device, and torch finds none (torch " in line


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        (
            "max_launches()",
            "missing 1 required positional argument: 'limit'; it is written "
            "@pytest.mark.max_launches(limit, step=None)",
        ),
        ("max_launches('many')", "the limit is a number of launches, not 'many'"),
        ("max_launches(True)", "the limit is a number of launches, not True"),
        ("max_launches(7, step='all')", "step is None, \"each\" or a number from 0, not 'all'"),
        ("max_launches(7, steps=1)", "unexpected keyword argument 'steps'; it is written"),
        ("no_syncs(allow=-1)", "allow is a number of blocking calls, not -1"),
    ],
)
def test_a_marker_with_wrong_arguments_is_an_error(
    marker: str, said: str, pytester: pytest.Pytester
) -> None:
    result = passed_in(
        pytester, f"import pytest\n\n@pytest.mark.{marker}\ndef test_it():\n    pass\n"
    )
    result.assert_outcomes(errors=1)
    assert f"@pytest.mark.{marker.partition('(')[0]}: " in result.stdout.str()
    assert said in result.stdout.str()


class Told:
    """A backend that is told what happens: what a device would do, without one."""

    predicts = False
    why_uncounted = ""

    def __init__(self, trace: Path) -> None:
        self.note: Callable[[Blocked], None] | None = None
        self.trace = trace

    def surroundings(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def watching(self, note: Callable[[Blocked], None]) -> Iterator[None]:
        self.note = note
        yield
        self.note = None

    @contextmanager
    def profiling(self, into: Profiled) -> Iterator[None]:
        yield
        into.traces.append(self.trace)

    def block(self, file: str, line: int) -> None:
        """The host is blocked, if anyone watches."""
        if self.note is not None:
            stack = (Frame(file, line, "step"),)
            self.note(Blocked("waits for a stream", "aten::_local_scalar_dense", stack))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Told:
    device = Told(write(tmp_path / "trace.json", marked_steps().build()))
    for module in (backends, syncs, launches):
        monkeypatch.setattr(module, "backend", lambda: device)
    return device


GUARDED = """
    import pytest
    from decodeprof.testing import backend

    def block():
        backend.backend().block(__file__, 5)  # line 5

    @pytest.fixture
    def set_up():
        block()

    @pytest.mark.no_syncs
    def test_set_up_is_not_the_test(set_up):
        pass

    @pytest.mark.no_syncs
    def test_one_too_many():
        block()

    @pytest.mark.no_syncs(allow=2)
    def test_allowed():
        block()
        block()

    def test_fixture(no_syncs):
        block()
        with no_syncs() as watched:
            pass
        assert watched.blocked == []
        with pytest.raises(AssertionError, match="blocked 1 time, none allowed"):
            with no_syncs():
                block()

    @pytest.mark.no_syncs
    def test_its_own_failure_goes_first():
        block()
        raise KeyError("its own")

    @pytest.mark.max_launches(6)
    def test_launches_within_the_limit():
        pass

    @pytest.mark.max_launches(5)
    def test_launches_above_the_limit():
        pass

    @pytest.mark.max_launches(2, step="each")
    @pytest.mark.no_syncs
    def test_both_at_once():
        pass
"""


def test_a_guarded_test_fails_with_the_place(pytester: pytest.Pytester, told: Told) -> None:
    assert told.note is None
    result = passed_in(pytester, GUARDED)
    result.assert_outcomes(passed=4, failed=4)
    out = result.stdout.str()
    for name, said in {
        "test_one_too_many": "the host was blocked 1 time, none allowed",
        "test_its_own_failure_goes_first": "KeyError: 'its own'",
        "test_launches_above_the_limit": "6 launches, 5 allowed: 5 kernel launches and 1 graph",
        "test_both_at_once": "3 launches in decode step 1, 2 allowed",
    }.items():
        assert f" {name} " in out
        assert said in out
    assert "test_a_guarded_test_fails_with_the_place.py:5 in step: backend.backend().block(" in out
    assert "aten::_local_scalar_dense waits for a stream" in out
    # The plugin's own frames are of no use to who reads this.
    assert "testing/syncs.py" not in out
    assert "testing/launches.py" not in out
    assert "another exception" not in out
