from __future__ import annotations

import errno
import os
import subprocess
import sys

import click
import pytest

from decodeprof import __version__
from decodeprof.cli import group
from decodeprof.cli.errors import print_error, run
from decodeprof.errors import DecodeprofError, InputError, UsageError

COMMANDS = list(group.list_commands(click.Context(group)))
HEAVY = ("torch", "pandas", "numpy", "transformers", "rich")

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from decodeprof.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as left:\n"
        "    assert left.code == 0, left.code\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('heavy:', heavy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    heavy = done.stdout.rpartition("heavy: ")[2].strip()
    assert heavy == "[]"


def test_help_lists_every_command_in_order(capsys: Capture) -> None:
    assert run(group, ["--help"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)


def test_no_command_shows_the_help(capsys: Capture) -> None:
    assert run(group, []) == 0
    assert capsys.readouterr().out.startswith("Usage: decodeprof")


def test_version(capsys: Capture) -> None:
    assert run(group, ["--version"]) == 0
    assert capsys.readouterr().out == f"decodeprof {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_and_says_what_each_option_does(
    name: str, capsys: Capture
) -> None:
    assert run(group, [name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"  decodeprof {name}" in out.partition("Examples:")[2]
    command = group.get_command(click.Context(group), name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.help.endswith("."), parameter.name


WRONG = {
    "unknown command": (
        ["analyse"],
        "error: no command is called `analyse`\nhint: did you mean `analyze`?\n",
    ),
    "unlike any command": (
        ["frobnicate"],
        "error: no command is called `frobnicate`\nhint: `decodeprof --help` lists them\n",
    ),
    "missing argument": (
        ["analyze"],
        "error: missing argument `PATH…`\n"
        "hint: `decodeprof analyze --help` says how it is called\n",
    ),
    "extra argument": (
        ["compare", "a", "b", "c"],
        "error: got unexpected extra argument (c)\n"
        "hint: `decodeprof compare --help` says how it is called\n",
    ),
    "bad value": (
        ["analyze", "a", "--width", "ten"],
        "error: invalid value for `--width`: `ten` is not a whole number\n"
        "hint: `decodeprof analyze --help` says how it is called\n",
    ),
    "bad number": (
        ["diagnose", "a.py:f", "--budget", "abc"],
        "error: invalid value for `--budget`: `abc` is not a number\n"
        "hint: `decodeprof diagnose --help` says how it is called\n",
    ),
    "no time": (
        ["diagnose", "a.py:f", "--budget", "0"],
        "error: invalid value for `--budget`: 0.0 is not more than 0\n"
        "hint: `decodeprof diagnose --help` says how it is called\n",
    ),
    "no end": (
        ["diagnose", "a.py:f", "--budget", "inf"],
        "error: invalid value for `--budget`: inf is not a finite number\n"
        "hint: `decodeprof diagnose --help` says how it is called\n",
    ),
    "no number": (
        ["diagnose", "a.py:f", "--timeout", "nan"],
        "error: invalid value for `--timeout`: nan is not a finite number\n"
        "hint: `decodeprof diagnose --help` says how it is called\n",
    ),
    "no limit": (
        ["check", "a", "--max-syncs", "nan"],
        "error: invalid value for `--max-syncs` / `--max-syncs-per-step`: nan is not a finite "
        "number\n"
        "hint: `decodeprof check --help` says how it is called\n",
    ),
    "no share": (
        ["check", "a", "--min-mbu", "1.5"],
        "error: invalid value for `--min-mbu`: 1.5 is not from 0 to 1\n"
        "hint: `decodeprof check --help` says how it is called\n",
    ),
    "empty path": (
        ["diagnose", "a.py:f", "--out", ""],
        "error: invalid value for `--out`: it is empty\n"
        "hint: `decodeprof diagnose --help` says how it is called\n",
    ),
    "out of range": (
        ["diagnose", "a.py:f", "--new-tokens", "0"],
        "error: invalid value for `--new-tokens`: 0 is less than 1\n"
        "hint: `decodeprof diagnose --help` says how it is called\n",
    ),
}


@pytest.mark.parametrize(("arguments", "wanted"), WRONG.values(), ids=WRONG)
def test_asked_wrongly(arguments: list[str], wanted: str, capsys: Capture) -> None:
    assert run(group, arguments) == 2
    captured = capsys.readouterr()
    assert captured.err == wanted
    assert captured.out == ""


def test_a_near_option_is_named(capsys: Capture) -> None:
    assert run(group, ["analyze", "x", "--widht", "80"]) == 2
    assert "`--width`" in capsys.readouterr().err


def raising(error: BaseException) -> click.Group:
    @click.command("fail")
    @click.option("--debug", is_flag=True)
    @click.pass_obj
    def fail(session: object, debug: bool) -> None:
        session.debug = debug  # type: ignore[attr-defined]
        raise error

    return click.Group(commands=[fail])


ERRORS = {
    "could not": (InputError("`a` is empty", why="0 bytes", hint="record it again"), 1),
    "asked wrongly": (UsageError("`a` is empty", why="0 bytes", hint="record it again"), 2),
}


@pytest.mark.parametrize(("error", "code"), ERRORS.values(), ids=ERRORS)
def test_an_error_says_what_why_and_what_next(
    error: DecodeprofError, code: int, capsys: Capture
) -> None:
    assert run(raising(error), ["fail"]) == code
    captured = capsys.readouterr()
    assert captured.err == "error: `a` is empty\n  0 bytes\nhint: record it again\n"
    assert captured.out == ""


def test_debug_shows_the_traceback_above_the_error(capsys: Capture) -> None:
    assert run(raising(InputError("`a` is empty")), ["fail", "--debug"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last)")
    assert err.endswith("error: `a` is empty\n")


def test_a_fault_of_its_own_is_a_message_and_not_a_traceback(capsys: Capture) -> None:
    assert run(raising(KeyError("steps")), ["fail"]) == 1
    assert capsys.readouterr().err == (
        "error: decodeprof failed in a way that it did not foresee\n"
        "  KeyError: 'steps'\n"
        "hint: this is a fault of decodeprof, not of your code; run it again with `--debug` for "
        "the traceback\n"
    )


def test_a_fault_of_its_own_has_its_traceback_with_debug(capsys: Capture) -> None:
    assert run(raising(KeyError("steps")), ["fail", "--debug"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last)")
    assert "the traceback is above" in err


def test_ctrl_c_leaves_with_130(capsys: Capture) -> None:
    assert run(raising(KeyboardInterrupt()), ["fail"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_an_interruption_is_one_line_that_says_what_was_kept(capsys: Capture) -> None:
    error = DecodeprofError("stopped by Ctrl-C", why="somewhere", hint="kept: `a`")
    error.exit_code = 130
    assert run(raising(error), ["fail"]) == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C; kept: `a`\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_output_that_cannot_be_written_is_no_fault_of_ours(number: int, capsys: Capture) -> None:
    assert run(raising(OSError(number, os.strerror(number))), ["fail"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: could not write the output\n  stdout: {os.strerror(number)}\n")


def test_an_error_of_a_file_is_not_taken_for_one_of_stdout(capsys: Capture) -> None:
    assert run(raising(OSError(errno.ENOSPC, "full", "some/file")), ["fail"]) == 1
    assert "did not foresee" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENAMETOOLONG])
def test_a_path_that_cannot_be_reached_is_no_fault_of_decodeprof(
    number: int, capsys: Capture
) -> None:
    assert run(raising(OSError(number, os.strerror(number), "locked/x.html")), ["fail"]) == 1
    assert capsys.readouterr().err == (
        f"error: cannot reach `locked/x.html`\n  {os.strerror(number)}\n"
        "hint: name another place, or see to its permissions\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", ""],
        ["check", "", "--max-syncs", "1"],
        ["compare", "", ""],
        ["export", "", "--csv"],
        ["open", ""],
    ],
)
def test_an_empty_path_is_not_the_current_folder(arguments: list[str], capsys: Capture) -> None:
    assert run(group, arguments) == 2
    assert "it is empty" in capsys.readouterr().err


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_a_stream_that_the_caller_closed_leads_nowhere(closed: tuple[int, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof", "explain"],
        preexec_fn=lambda: [os.close(number) for number in closed],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert bool(done.stdout) == (1 not in closed)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["explain"], ["explain", "--json"]])
def test_a_full_device(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "decodeprof", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error: could not write the output\n"
        "  stdout: No space left on device\n"
        "hint: make room there, or send it elsewhere\n"
    )


def test_ctrl_c_while_modules_are_loaded_is_one_line() -> None:
    program = (
        "import sys\n"
        "class Press:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'decodeprof.cli.lazy':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Press())\n"
        "from decodeprof.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_an_error_cannot_write_to_the_terminal(capsys: Capture) -> None:
    print_error(InputError("`a\x1b[2Jb`", why="one\ntwo\x07", hint="x\u202ey\nand z"))
    assert capsys.readouterr().err == (
        "error: `a\ufffd[2Jb`\n  one\n  two\ufffd\nhint: x\ufffdy\n      and z\n"
    )
