from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from decodeprof.cli import group
from decodeprof.cli.errors import run
from decodeprof.model.rollup import Summary
from decodeprof.report.rollup import rollup_view
from decodeprof.report.terminal import text
from tests.scenarios import decode_loop
from tests.write_kineto import write

Capture = pytest.CaptureFixture[str]


def test_the_summary_is_told_in_words() -> None:
    summary = Summary(
        table_schema_version=1,
        out="table.parquet",
        found=1_200,
        already=1_000,
        same=1,
        ok=190,
        bad=8,
        failed=1,
        steps=4_000,
        bound_by={"launch": 150, "memory": 40},
        errors=["s3://b/\x1b[31mx.json: no trace"],
        seconds=12.5,
    )
    shown = text(rollup_view(summary), width=80)
    assert "199 of 1,200 traces are new: 190 analysed, 8 bad, 1 failed." in shown
    assert "launch  150" in shown
    assert "12.5 s" in shown
    assert "\x1b" not in shown


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("decodeprof.fleet.sources._PACKAGES", ("no_such_package",))
    assert run(group, ["rollup", "*.json", "--out", "table"]) == 1
    assert capsys.readouterr().err == (
        "error: a rollup needs no_such_package\n"
        "  the packages of the extra `fleet` are not installed\n"
        "hint: pip install 'decodeprof[fleet]'\n"
    )


def test_the_command_line_imports_none_of_its_packages() -> None:
    program = (
        "import sys, decodeprof.cli.rollup, decodeprof.fleet.work, decodeprof.fleet.table\n"
        "import decodeprof.fleet.run, decodeprof.fleet.cluster, decodeprof.fleet.schema\n"
        "heavy = {'dask', 'distributed', 'fsspec', 'pyarrow', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "missing argument"),
        (["a.json"], "missing option `--out`"),
        (["a.json", "--out", ""], "`--out` is empty"),
        (["a.json", "", "--out", "t"], "one of the names of traces is empty"),
        (["a", "--out", "t", "--workers", "2", "--scheduler", "tcp://x:1"], "workers of its own"),
        (["nothing-*.json", "--out", "t"], "names no trace"),
        (["nothing.json", "--out", "t"], "nothing of that name is there"),
    ],
)
def test_asked_wrongly(
    arguments: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    pytest.importorskip("fsspec", reason="the extra `fleet` is not installed")
    monkeypatch.chdir(tmp_path)
    assert run(group, ["rollup", *arguments]) == 2
    assert why in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_rollup_of_this_machines_own_workers(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra `fleet` is not installed")
    write(tmp_path / "a.json.gz", decode_loop().build())
    (tmp_path / "b.json").write_text("no trace")
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof", "rollup", ".", "--out=t", "--workers=1", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(done.stdout)
    assert (summary["ok"], summary["bad"], summary["found"]) == (1, 1, 2)
    assert done.stderr.splitlines()[-1] == "2 of 2 traces"
