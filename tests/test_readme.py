"""Each command in the README runs as it stands there, in a folder with its example script."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from tests import worked_example
from tests.golden import check_golden
from tests.readme import README, Block, blocks

TIMEOUT_S = 120
BLOCKS = blocks(README.read_text())
SCRIPT = re.compile(r"<!-- file: (?P<name>[\w./]+) -->\n+```python\n(?P<body>.*?)```", re.S)


def gpu_is_there() -> bool:
    return Path("/dev/nvidia0").exists()


def skip_unless_met(needs: tuple[str, ...]) -> None:
    if "nsys" in needs and not (gpu_is_there() and shutil.which("nsys")):
        pytest.skip("needs Nsight Systems and a GPU")
    if "network" in needs:
        pytest.skip("fetches from the network")
    if "gpu" in needs and not gpu_is_there():
        pytest.skip("needs a GPU")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the README's example scripts and the checkout's recordings."""
    for match in SCRIPT.finditer(README.read_text()):
        path = tmp_path / match["name"]
        path.write_text(match["body"])
    for name in ("fixtures", "Makefile"):
        if (README.parent / name).exists():
            (tmp_path / name).symlink_to(README.parent / name)
    return tmp_path


def read_as_a_page_does() -> None:
    """Fetch what `decodeprof open` serves, as soon as it does."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            urllib.request.urlopen("http://127.0.0.1:9001/timeline.pftrace").read()
            return
        time.sleep(0.2)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line {block.line}")
def test_the_commands_of_a_block_run(block: Block, folder: Path) -> None:
    skip_unless_met(block.needs)
    if "browser" in block.needs:
        threading.Thread(target=read_as_a_page_does, daemon=True).start()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    assert block.commands, "a console block without a command"
    for command in block.commands:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_blocks_are_found_with_what_they_need() -> None:
    text = (
        "a\n\n<!-- needs: gpu, network -->\n```console\n$ one \\\n  two\nout\n$ three\n```\n"
        "b\n```console\n$ four\n```\n"
    )
    assert blocks(text) == [
        Block(4, ("gpu", "network"), ("one   two", "three")),
        Block(11, (), ("four",)),
    ]


def test_the_readme_has_commands_that_run_here() -> None:
    assert [block for block in BLOCKS if not block.needs]


def test_the_worked_example_is_what_was_recorded() -> None:
    if not worked_example.LARGE.is_file():
        pytest.skip("no recordings in this checkout")
    before, begin, rest = README.read_text().partition(worked_example.BEGIN)
    _, end, after = rest.partition(worked_example.END)
    assert begin
    assert end
    written = before + begin + worked_example.readme_part() + end + after
    check_golden(README, written.encode())
