"""What a target names, and what is said when it names nothing."""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from decodeprof.capture.arguments import bind, fingerprint, parse_arguments
from decodeprof.capture.failure import explain
from decodeprof.capture.invoke import Caller
from decodeprof.capture.job import Job
from decodeprof.capture.load import Target, UserCodeFailed, load
from decodeprof.capture.places import Places
from decodeprof.capture.target import parse_spec
from decodeprof.capture.watch import Watch
from decodeprof.errors import UsageError
from tests.capture.conftest import SCRIPTS


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Target]]:
    """Loads a target in this process, and takes its module out again."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    before = set(sys.modules)
    caller = Caller(Watch())

    def call(target: str, *args: str, setup: str | None = None) -> Target:
        job = Job(target=target, args=list(args), setup=setup)
        return load(job, parse_spec(target), caller=caller, on_phase=lambda _: None)

    yield call
    caller.close()
    for name in set(sys.modules) - before:
        if name in ("loop", "failing", "own", "raises_on_import", "exits_on_import"):
            del sys.modules[name]


def script(folder: Path, text: str, name: str = "own.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (f"{SCRIPTS}/lop.py:generate", "there is no file", "loop.py`"),
        (f"{SCRIPTS}/nowhere/x.py:generate", "there is no file", "relative to the current folder"),
        (f"{SCRIPTS}/loop.py", "does not say what to run", "loop.py:generate_sequence`"),
        (f"{SCRIPTS}/loop.py:", "does not say what to run", "loop.py:Engine.stream`"),
        (f"{SCRIPTS}/loop.py:2x", "does not say what to run", "loop.py:generate`"),
        ("package.module", "does not say what to run", "`package.module:generate`"),
        (f"{SCRIPTS}/loop.py:Engine:stream", "does not say what to run", "loop.py:Engine.stream`"),
        (":generate", "names no script", "my_script.py:generate"),
    ],
)
def test_a_spec_that_names_nothing(text: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_spec(text)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_a_spec_is_shown_without_folders_outside_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse_spec(f"{SCRIPTS}/loop.py:Engine.stream").short == "loop.py:Engine.stream"
    assert parse_spec("package.module:generate").short == "package.module:generate"
    (tmp_path / "below").mkdir()
    script(tmp_path / "below", "")
    monkeypatch.chdir(tmp_path)
    assert parse_spec("below/own.py:generate").short == "below/own.py:generate"
    monkeypatch.chdir(tmp_path / "below")
    assert parse_spec("../below/own.py:generate").short == "own.py:generate"


def test_a_class_is_no_target_but_its_methods_are(loader: Callable[..., Target]) -> None:
    with pytest.raises(UsageError) as caught:
        loader(f"{SCRIPTS}/loop.py:Engine")
    assert caught.value.what == f"`Engine` in `{SCRIPTS}/loop.py` is a class"
    assert caught.value.hint == f"name a method: `{SCRIPTS}/loop.py:Engine.stream`"
    with pytest.raises(UsageError, match="is a class") as without:
        loader(f"{SCRIPTS}/loop.py:Tiny.__class__")
    assert "name one of its instances" in without.value.hint


@pytest.mark.parametrize(
    ("target", "args", "setup", "what", "hint"),
    [
        ("loop.py:generte", [], None, "has no `generte`", "loop.py:generate`"),
        ("loop.py:Engine.strem", [], None, "has no `Engine.strem`", "loop.py:Engine.stream`"),
        ("loop.py:generate", ["model=@modle"], None, "names nothing", "did you mean `@model`?"),
        (
            "loop.py:generate",
            ["model=@model"],
            None,
            "needs 1 argument more",
            "add --arg prompt=JSON",
        ),
        ("loop.py:stream", ["m=3"], None, "has no parameter `m`", "its parameters: `n`"),
        ("loop.py:stream", [], "biuld", "has no `biuld`", "loop.py:build`"),
        ("loop.py:stream", [], "stream", "returned generator", ""),
        ("loop.py:stream", [], "generate", "needs arguments", "give its parameters defaults"),
        ("failing.py:NeedsSize.generate", [], None, "needs an instance", "engine.generate`"),
        ("loop.py:Engine.stream", [], None, "needs an instance", "--setup its_name"),
        ("failing.py:NeedsSize.generate", [], "set_up_with_nothing", "NoneType", "`return`"),
        ("failing.py:not_a_function", [], None, "is no function", "failing.py:hangs`"),
    ],
)
def test_a_target_that_cannot_be_called(
    loader: Callable[..., Target],
    target: str,
    args: list[str],
    setup: str | None,
    what: str,
    hint: str,
) -> None:
    with pytest.raises(UsageError) as caught:
        loader(f"{SCRIPTS}/{target}", *args, setup=setup)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_a_method_of_an_instance_in_the_script(loader: Callable[..., Target]) -> None:
    target = loader(f"{SCRIPTS}/failing.py:engine.generate")
    assert target.arguments.call(target.function, target.arguments.build()) is not None


def test_a_class_that_needs_nothing_is_instantiated(
    loader: Callable[..., Target], tmp_path: Path
) -> None:
    text = (
        "class E:\n"
        "    def go(self, *, n=1): return n\n"
        "    @staticmethod\n"
        "    def still(): return 7\n"
    )
    path = script(tmp_path, text)
    target = loader(f"{path}:E.go", "n=5")
    assert target.arguments.call(target.function, target.arguments.build()) == 5
    static = loader(f"{path}:E.still")
    assert static.arguments.call(static.function, {}) == 7


def test_a_set_up_function_may_return_instance_and_arguments(
    loader: Callable[..., Target], tmp_path: Path
) -> None:
    text = (
        "class E:\n"
        "    def __init__(self, k): self.k = k\n"
        "    def go(self, a, /, b): return (self.k, a, b)\n"
        "def make(): return E(1), {'a': 2, 'b': 3}\n"
    )
    target = loader(f"{script(tmp_path, text)}:E.go", "b=4", setup="make")
    assert target.arguments.call(target.function, target.arguments.build()) == (1, 2, 4)


def test_json_arguments_are_made_anew_and_attributes_are_not(
    loader: Callable[..., Target], tmp_path: Path
) -> None:
    text = "kept = [1]\nclass deep:\n    value = 3\ndef go(a, b, c): return a, b, c\n"
    target = loader(f"{script(tmp_path, text)}:go", "a=[1]", "b=@kept", "c=@deep.value")
    first, second = target.arguments.build(), target.arguments.build()
    assert first == second == {"a": [1], "b": [1], "c": 3}
    assert first["a"] is not second["a"]
    assert first["b"] is second["b"]


def test_a_script_named_like_a_module_in_use(loader: Callable[..., Target], tmp_path: Path) -> None:
    import json

    target = loader(f"{script(tmp_path, 'def go(): return 1', 'json.py')}:go")
    assert sys.modules["json"] is json
    assert target.function() == 1


def test_what_a_script_lacks_is_its_own_error(
    loader: Callable[..., Target], tmp_path: Path
) -> None:
    with pytest.raises(UserCodeFailed) as caught:
        loader(f"{script(tmp_path, 'import no_such_package')}:go")
    assert isinstance(caught.value.error, ModuleNotFoundError)
    with pytest.raises(UsageError, match=r"there is no module `no_such_package\.engine`"):
        loader("no_such_package.engine:go")


def test_a_script_that_fails_on_import_shows_its_own_line(loader: Callable[..., Target]) -> None:
    with pytest.raises(UserCodeFailed) as caught:
        loader(f"{SCRIPTS}/raises_on_import.py:generate")
    failed = caught.value
    told = explain(failed.error, during=failed.during, places=Places(str(SCRIPTS)))
    assert told.what == "the target raised JSONDecodeError while importing the script"
    first, innermost, *message = told.why.splitlines()
    assert first.startswith("raises_on_import.py:3 <module>: CONFIGURATION = json.loads")
    assert innermost.startswith("python3.")
    assert message[0].startswith("json.decoder.JSONDecodeError: Expecting property name")


def test_a_script_that_exits_on_import_is_told_how_to_avoid_it(
    loader: Callable[..., Target],
) -> None:
    with pytest.raises(UserCodeFailed) as caught:
        loader(f"{SCRIPTS}/exits_on_import.py:generate")
    failed = caught.value
    told = explain(failed.error, during=failed.during, places=Places(str(SCRIPTS)))
    assert told.what.startswith("the target called sys.exit('usage: exits_on_import.py MODEL')")
    assert "if __name__ == '__main__':" in told.hint


def test_a_module_target_is_found_from_the_current_folder(
    loader: Callable[..., Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "def go(): return 2")
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    assert loader("own:go").function() == 2


@pytest.mark.parametrize(
    ("texts", "what", "hint"),
    [
        (["prompt"], "not of the form name=value", "max_new_tokens=32"),
        (["2x=3"], "not of the form name=value", "max_new_tokens=32"),
        (["prompt=Hello"], "is not JSON", "--arg 'prompt=\"Hello\"'"),
        (["prompt=Hello world"], "is not JSON", "--arg 'prompt=\"Hello world\"'"),
        (["greedy=True"], "is not JSON", "--arg 'greedy=true'"),
        (["n=1", "n=2"], "given twice", ""),
    ],
)
def test_arguments_that_cannot_be_read(texts: list[str], what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arguments(texts)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_a_function_that_takes_anything_gets_it() -> None:
    def go(**rest: int) -> dict[str, int]:
        return rest

    given = parse_arguments(["a=1"])
    arguments = bind(go, given=given, from_setup={}, module=sys, shown="x.py:go")
    assert arguments.call(go, arguments.build(override={"b": 2})) == {"a": 1, "b": 2}


def test_fingerprints_see_changed_containers_alone() -> None:
    inner = object()
    values = {"a": [1, [2, 3]], "b": {"k": inner}, "n": 3}
    before = fingerprint(values)
    assert before == fingerprint(values)
    assert "n" not in before
    values["a"].append(4)  # type: ignore[attr-defined]
    assert fingerprint(values) != before


def test_calls_share_one_event_loop() -> None:
    caller = Caller(Watch())
    loops = []

    async def go() -> None:
        loops.append(asyncio.get_running_loop())

    assert caller.call(go).kind == "coroutine"
    caller.call(go)
    assert loops[0] is loops[1]
    caller.close()


def test_the_command_to_paste_keeps_the_setup() -> None:
    def go(prompt: list[int]) -> None: ...

    with pytest.raises(UsageError) as caught:
        bind(go, given=[], from_setup={}, module=sys, shown="my script.py:E.go", setup="build")
    assert caught.value.hint.startswith(
        "decodeprof diagnose 'my script.py:E.go' --setup build --arg prompt=JSON"
    )


@pytest.mark.parametrize("most", [3, None])
def test_a_generator_is_closed_after_as_many_items_as_were_asked_for(most: int | None) -> None:
    ended = []

    def stream() -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            ended.append("closed")

    async def stream_async() -> AsyncIterator[int]:
        for each in stream():
            yield each

    caller = Caller(Watch(), most_items=most)
    wanted = tuple(range(most or 5))
    for function in (stream, stream_async):
        returned = caller.call(function, keep_items=True)
        assert (returned.items, returned.yields) == (wanted, len(wanted))
        # What is no generator of Python's own has nothing to close.
        assert caller.call(lambda: iter(range(5)), keep_items=True).items == wanted
    assert ended[0] == "closed"
    caller.close()


def test_an_argument_is_shown_as_it_was_given_unless_it_is_long() -> None:
    texts = ["model=@engine.model", "n=4", f'prompt="{"x" * 99}"']
    shown = [each.shown() for each in parse_arguments(texts)]
    assert shown == ["model=@engine.model", "n=4", "prompt=…"]


def test_class_methods_are_offered_beside_the_others(
    loader: Callable[..., Target], tmp_path: Path
) -> None:
    text = "class E:\n @classmethod\n def go(cls): ...\n @staticmethod\n def st(): ...\n"
    path = script(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        loader(f"{path}:E")
    assert caught.value.hint == f"name a method: `{path}:E.go`, `{path}:E.st`"
    assert loader(f"{path}:E.go").function() is None
