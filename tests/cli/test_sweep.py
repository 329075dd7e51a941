"""A sweep from the command line: run, stopped, gone on with, shown, and refused."""

from __future__ import annotations

import csv
import io
import json
import shutil
import signal
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from decodeprof.cli import group, sweep_run
from decodeprof.cli.errors import run
from decodeprof.cli.sweep_files import CEILINGS_FILE, CSV_FILE, POINTS_FILE, SWEEP_FILE
from decodeprof.cli.sweep_target import point_of
from decodeprof.model.diagnosis import Diagnosis

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]
SAMPLES = [100, 100, 100]
SPEC: dict[str, Any] = {"phase": "decode", "axis": "batch", "values": [1, 2, 64], "shape": "0.6b"}
ABOUT = {"spec": SPEC, "device": "NVIDIA H200", "torch": "2.11", "dtype": "bfloat16"}
NS = 1_000


def point(value: int, busy_ns: int) -> list[dict[str, Any]]:
    """100 kernels that the host launches at 10 µs each."""
    device = busy_ns + 100 * 400
    counts = {"activities": 100.0, "kernels": 100.0, "busy_ns": busy_ns, "settled": True}
    return [
        {
            "value": value, "kind": "timed", "tokens": value, "weight_bytes": 4_000_000,
            "kv_bytes": 1_000 * value, "flops": 8_000_000 * value,
            "eager_ns": [max(1_000_000, device)], "graph_ns": [device], "launch_ns": 9_000,
        },
        {
            "value": value, "kind": "counted",
            "eager": {**counts, "tklqt_ns": 600_000}, "graph": {**counts, "tklqt_ns": None},
        },
    ]  # fmt: skip


def write(directory: Path, *messages: dict[str, Any]) -> Path:
    directory.mkdir()
    lines = [json.dumps(message) for message in messages]
    (directory / POINTS_FILE).write_text("\n".join(lines) + "\n")
    return directory


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    out = write(
        tmp_path / "recorded",
        ABOUT,
        *point(1, 60_000),
        *point(2, 60_000),
        {"value": 64, "kind": "failed", "reason": "out of memory: CUDA out of memory"},
        *point(32, 1_960_000),
        {"value": 1, "kind": "again", "eager_ns": [1_000_000]},
    )
    rates = {"node_gap_ns": 400, "read_bytes_per_s": 4e12, "matmul_flops_per_s": 8e14}
    (out / CEILINGS_FILE).write_text(json.dumps({"device": "NVIDIA H200", "ceilings": rates}))
    return out


def test_a_recorded_sweep_is_shown(recorded: Path, capsys: Capture) -> None:
    before = sorted(path.name for path in recorded.iterdir())
    assert run(group, ["sweep", "--show", str(recorded), "--width", "120"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "At batch 1 the eager step is launch-bound" in out
    assert "left out: out of memory: CUDA out of memory" in out
    # 0.1 ms at batch 2, 2 ms at 32: the power between them reaches 1 ms at 16.8.
    assert "batch 17, between points 2 and 32" in out
    assert sorted(path.name for path in recorded.iterdir()) == before


def test_as_json_and_as_csv_it_is_the_same(recorded: Path, capsys: Capture) -> None:
    assert run(group, ["sweep", "--show", str(recorded), "--json"]) == 0
    sweep = json.loads(capsys.readouterr().out)
    assert run(group, ["sweep", "--show", str(recorded), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["batch"] for row in rows] == ["1", "2", "32", "64"]
    for row, found in zip(rows, sweep["points"], strict=True):
        assert row["device_ns"] == ("" if found["device_ns"] is None else str(found["device_ns"]))
    assert sweep["crossings"][0]["at"] == pytest.approx(2 * 16 ** (1 - 0.2313), rel=0.01)


def test_plans_of_buckets_are_weighed(recorded: Path, capsys: Capture) -> None:
    arguments = ["sweep", "--show", str(recorded), "--live", "1:1,32:1", "--buckets", "32"]
    assert run(group, arguments) == 0
    out = capsys.readouterr().out
    # Half of the steps take 2 ms in place of 0.1 ms.
    assert "as asked" in out
    assert "48 %" in out


@pytest.mark.parametrize("width", ["64", "80"])
def test_it_fits_a_narrow_terminal(recorded: Path, capsys: Capture, width: str) -> None:
    assert run(group, ["sweep", "--show", str(recorded), "--width", width]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= int(width)


def test_the_reference_is_swept_and_gone_on_with(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    common = ["--layers", "2", "--width-of-model", "16", "--device", "cpu", "--out", str(out)]
    assert run(group, ["sweep", "toy", "--vary", "batch=1,2", *common]) == 0
    first = (out / POINTS_FILE).read_text()
    shown = capsys.readouterr().out
    assert "on a CPU" in shown
    assert "none can be told: this ran on a CPU" in shown
    assert {path.name for path in out.iterdir()} == {POINTS_FILE, SWEEP_FILE, CSV_FILE}
    # As if it had been cut off while it wrote the next line.
    (out / POINTS_FILE).write_text(first + '{"value": 4, "kind": "tim')
    assert run(group, ["sweep", "toy", "--vary", "batch=1,2,4", *common]) == 0
    second = (out / POINTS_FILE).read_text()
    assert second.startswith(first)
    assert [json.loads(line)["value"] for line in second[len(first) :].splitlines()] == [4]


def test_rows_of_the_toy_are_read_and_are_no_tokens(tmp_path: Path, capsys: Capture) -> None:
    timed = {"value": 8, "kind": "timed", "weight_bytes": 4 * 16**2 * 2, "kv_bytes": 0, "tokens": 8,
             "eager_ns": [1, 1, 1]}  # fmt: skip
    spec = {"phase": "toy", "axis": "batch", "values": [8], "layers": 4, "width": 16, "batch": 1}
    out = write(tmp_path / "toy", {**ABOUT, "spec": spec}, timed)
    (out / CEILINGS_FILE).write_text(json.dumps({"ceilings": {"read_bytes_per_s": 1e9}}))
    assert run(group, ["sweep", "--show", str(out), "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["bytes_ns"] == (4 * 16**2 + 8 * 16) * 2
    assert point["tokens_per_s"] is None


SCRIPT = """
import torch
model = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50)).eval()
@torch.inference_mode()
def generate(batch=1, new_tokens=24):
    if batch > 2:
        raise MemoryError("too large")
    tokens = torch.zeros(batch, 1, dtype=torch.int64)
    made = []
    for _ in range(new_tokens):
        tokens = model(tokens).argmax(-1)
        made.append(tokens)
    return torch.cat(made, 1).tolist()
"""


def test_a_target_is_swept_by_its_argument(tmp_path: Path, capsys: Capture) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    out = tmp_path / "out"
    arguments = ["sweep", f"{script}:generate", "--vary", "batch=3,1", "--out", str(out)]
    assert run(group, [*arguments, "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    assert "too large" in captured.out
    assert (out / "batch_1" / "recording.json").is_file()
    sweep = json.loads((out / SWEEP_FILE).read_bytes())
    assert [point["value"] for point in sweep["points"]] == [1, 3]
    first = sweep["points"][0]
    assert first["tokens_per_s"] == pytest.approx(1e9 / first["eager_ns"], rel=1e-3)
    assert "tokens/s" in captured.out
    assert "too large" in sweep["points"][1]["failed"]
    assert run(group, [*arguments, "--device", "cpu"]) == 0
    assert "(2 of 2)" not in capsys.readouterr().err
    assert run(group, [*arguments, "--device", "cpu", "--arg", "new_tokens=8"]) == 2
    refused = capsys.readouterr().err
    assert "was measured with other settings" in refused
    assert "its target was run with --device cpu" in refused
    # As if an earlier run had been stopped while it recorded this point.
    (out / "batch_2").mkdir()
    (out / "batch_2" / "log").write_text("half")
    arguments[3] = "batch=1,2"
    assert run(group, [*arguments, "--device", "cpu"]) == 0
    assert "what it left is now in" in capsys.readouterr().err
    assert (out / "batch_2-unfinished-001" / "log").read_text() == "half"
    sweep = json.loads((out / SWEEP_FILE).read_bytes())
    assert [point["value"] for point in sweep["points"]] == [1, 2, 3]
    second = sweep["points"][1]
    assert second["tokens_per_s"] == pytest.approx(2e9 / second["eager_ns"], rel=1e-3)


LATE = """
import pathlib, time
import torch
model = torch.nn.Linear(4, 4)
calls = 0
def generate(batch):
    global calls
    calls += 1
    if batch == 2 and calls == 4 and not pathlib.Path(__file__).with_name("mended").exists():
        raise ValueError("the reason\\nin two lines")
    made = []
    for _ in range(12):
        made.append(int(model(torch.zeros(batch, 4)).argmax()))
    return made
"""


def test_a_failed_point_says_why_and_is_tried_again(tmp_path: Path, capsys: Capture) -> None:
    script, out = tmp_path / "late.py", tmp_path / "out"
    script.write_text(LATE)
    arguments = ["sweep", f"{script}:generate", "--vary", "batch=1,2", "--out", str(out)]
    assert run(group, arguments) == 0
    captured = capsys.readouterr()
    points = json.loads((out / SWEEP_FILE).read_bytes())["points"]
    reason = "the target raised ValueError in call 4: ValueError: the reason in two lines"
    assert [point["failed"] for point in points] == [None, reason]
    assert f"the same command with `--out {out}` tries again what was left out" in captured.err
    (tmp_path / "mended").touch()
    first = (out / "batch_1" / "diagnosis.json").read_bytes()
    assert run(group, arguments) == 0
    assert "tries again" not in capsys.readouterr().err
    points = json.loads((out / SWEEP_FILE).read_bytes())["points"]
    assert [point["failed"] for point in points] == [None, None]
    assert points[1]["eager_ns"] is not None
    assert (out / "batch_1" / "diagnosis.json").read_bytes() == first


SLOW = """
import pathlib, time
def generate(batch):
    if batch > 1:
        pathlib.Path(__file__).with_name("called").touch()
        time.sleep(60)
    for token in range(12):
        yield token
"""


def test_ctrl_c_ends_the_sweep_of_a_target(tmp_path: Path) -> None:
    script, out = tmp_path / "slow.py", tmp_path / "out"
    script.write_text(SLOW)
    command = [sweep_run.sys.executable, "-m", "decodeprof", "sweep", f"{script}:generate"]
    with subprocess.Popen(
        [*command, "--vary", "batch=1,2,3", "--out", str(out)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        until = time.monotonic() + 60
        while not (tmp_path / "called").exists() and time.monotonic() < until:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=30)[1].decode()
    assert child.returncode == 130
    assert f"the same command with `--out {out}` goes on" in said
    assert "left out" not in said
    assert "batch 3" not in said
    # What was swept, and no word of a point; the first one's recording is whole.
    assert len((out / POINTS_FILE).read_text().splitlines()) == 1
    assert [path.parent.name for path in out.glob("*/diagnosis.json")] == ["batch_1"]


UNSEEN = """
import time
import torch
def generate(batch, marked):
    import contextlib, decodeprof
    made = []
    for token in range(8):
        with decodeprof.step() if marked else contextlib.nullcontext():
            time.sleep(0.002 * batch)
            made.append(torch.full((batch,), token))
    return made
"""


@pytest.mark.parametrize("marked", [True, False])
def test_steps_that_return_a_token_of_each_sequence_are_no_sequences(
    tmp_path: Path, marked: bool
) -> None:
    script, out = tmp_path / "unseen.py", tmp_path / "out"
    script.write_text(UNSEEN)
    arguments = ["sweep", f"{script}:generate", "--vary", "batch=16", "--out", str(out)]
    assert run(group, [*arguments, "--arg", f"marked={json.dumps(marked)}"]) == 0
    sweep = json.loads((out / SWEEP_FILE).read_bytes())
    (point,) = sweep["points"]
    recording = json.loads((out / "batch_16" / "recording.json").read_bytes())
    assert (recording["target"]["new_tokens"], recording["target"]["batch"]) == (8, 16)
    if marked:
        assert point["eager_ns"] == pytest.approx(32e6, rel=0.2)
        assert point["tokens_per_s"] == pytest.approx(16e9 / point["eager_ns"], rel=1e-3)
    elif point["eager_ns"] is None:
        assert "no step time at batch 16: no steps were seen" in " ".join(sweep["caveats"])
    else:  # Python 3.12 sees the loop.
        assert point["eager_ns"] == pytest.approx(32e6, rel=0.2)


def test_a_batch_that_was_not_seen_makes_no_tokens() -> None:
    path = ROOT / "reports/plain_0p6b/diagnosis.json"
    diagnosis = msgspec.json.decode(path.read_bytes(), type=Diagnosis)
    assert point_of(diagnosis, "context", 512).tokens == 1
    assert point_of(diagnosis, "batch", 1).tokens == 1
    # The argument asked for two rows; what was seen are the tokens of one.
    assert point_of(diagnosis, "batch", 2).tokens is None


def test_a_target_is_told_how_long_its_kernels_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def record(_: object, *, out: Path, progress: object) -> None:
        del progress
        name = "plain_0p6b" if out.name.endswith("_1") else "stage_graph"
        shutil.copytree(ROOT / "fixtures" / name, out)

    monkeypatch.setattr("decodeprof.capture.record", record)
    out = tmp_path / "out"
    assert run(group, ["sweep", "s.py:f", "--vary", "n=1,2", "--out", str(out), "--csv"]) == 0
    point, graph = csv.DictReader(io.StringIO(capsys.readouterr().out))
    step = msgspec.json.decode((out / "n_1/diagnosis.json").read_bytes(), type=Diagnosis).step
    assert step is not None
    assert step.queue_depth_mean is not None
    assert step.profiled_ns is not None
    # Little's law; what is queued are a few copies, too.
    queued_ns = step.queue_depth_mean * step.profiled_ns
    assert int(point["tklqt_ns"]) == pytest.approx(queued_ns, rel=0.02)
    assert graph["tklqt_ns"] == ""


def test_the_samples_of_a_point_show_how_far_they_spread(tmp_path: Path, capsys: Capture) -> None:
    timed = [
        {**point(value, 60_000)[0], "eager_ns": [1_000, 1_060, 900, 1_010, 1_000, 990, high],
         "graph_ns": [500, 510, 505]}
        for value, high in ((1, 1_080), (2, 1_200))
    ]  # fmt: skip
    out = write(tmp_path / "spread", ABOUT, *timed)
    assert run(group, ["sweep", "--show", str(out), "--json"]) == 0
    sweep = json.loads(capsys.readouterr().out)
    assert [
        (each["eager_p10_ns"], each["eager_ns"], each["eager_p90_ns"]) for each in sweep["points"]
    ] == [(900, 1_000, 1_080), (900, 1_000, 1_200)]
    spread = [text for text in sweep["caveats"] if "spread" in text]
    assert spread == [
        "the times of an eager step spread by more than 20 % of their median, from p10 to p90, at "
        "batch 2 (900 ns to 1.20 µs)"
    ]
    assert run(group, ["sweep", "--show", str(out), "--csv"]) == 0
    (first, _) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (first["graph_p10_ns"], first["graph_p90_ns"]) == ("500", "510")


def test_single_steps_of_a_target_show_how_far_they_spread() -> None:
    path = ROOT / "reports/plain_0p6b/diagnosis.json"
    diagnosis = msgspec.json.decode(path.read_bytes(), type=Diagnosis)
    assert diagnosis.step is not None
    times = diagnosis.step.unprofiled_ns
    assert times is not None
    assert times.p10 is not None
    assert point_of(diagnosis, "batch", 1).eager_range_ns == (times.p10, times.p90)


def test_a_targets_graph_is_measured_where_its_step_was_captured() -> None:
    path = ROOT / "reports/plain_0p6b/diagnosis.json"
    diagnosis = msgspec.json.decode(path.read_bytes(), type=Diagnosis)
    graph = diagnosis.what_if.cuda_graph
    assert graph is not None
    said = point_of(diagnosis, "batch", 1)
    assert (said.graph_ns, said.predicted_graph_ns) == ([], graph.step_ns.expected)
    captured = msgspec.structs.replace(
        diagnosis,
        what_if=msgspec.structs.replace(
            diagnosis.what_if, cuda_graph=msgspec.structs.replace(graph, measured=True)
        ),
    )
    timed = point_of(captured, "batch", 1)
    assert (timed.graph_ns, timed.predicted_graph_ns) == ([graph.step_ns.expected], None)


def test_a_capture_is_for_a_target_and_a_step_for_a_capture(capsys: Capture) -> None:
    assert run(group, ["sweep", "--vary", "batch=1,2", "--graph-check"]) == 2
    assert "`--graph-check` is for a target" in capsys.readouterr().err
    assert run(group, ["sweep", "loop.py:generate", "--vary", "batch=1", "--step", "f"]) == 2
    assert "`--step` is for `--graph-check`" in capsys.readouterr().err


def test_points_that_were_not_measured_are_named(tmp_path: Path, capsys: Capture) -> None:
    out = write(tmp_path / "cut", ABOUT, *point(1, 60_000))
    assert run(group, ["sweep", "--show", str(out), "--json"]) == 0
    caveats = json.loads(capsys.readouterr().out)["caveats"]
    assert caveats == [
        "not measured yet: batch 2, 64; the same sweep with `--out` naming its directory goes on"
    ]


def test_a_sweep_that_is_interrupted_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sizes = ",".join(map(str, range(1, 200)))
    command = [sweep_run.sys.executable, "-m", "decodeprof", "sweep", "toy", "--device", "cpu"]
    command += ["--layers", "1", "--width-of-model", "16", "--vary", f"batch={sizes}"]
    with subprocess.Popen(
        [*command, "--out", str(out)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # A job in the background is born deaf to Ctrl-C, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        until = time.monotonic() + 60
        while not (out / POINTS_FILE).is_file() and time.monotonic() < until:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=30)[1].decode()
    assert f"what was measured is kept: the same command with `--out {out}` goes on" in said
    assert "Traceback" not in said
    assert child.returncode == 130


def test_a_child_that_crashes_leaves_what_it_said(tmp_path: Path, capsys: Capture) -> None:
    said = [{"device": None, "torch": "2", "dtype": "float32"}, point(1, NS)[0]]
    program = "\n".join(["import os", *(f"print({json.dumps(m)!r}, flush=True)" for m in said),
                         "os.abort()"])  # fmt: skip
    command = (sweep_run.sys.executable, "-c", program)
    wanted = sweep_run.Wanted(spec=SPEC)
    with pytest.raises(sweep_run.DecodeprofError, match="stopped before its end") as caught:
        sweep_run.run(wanted, tmp_path / "the out", command=command)
    assert f"`--out '{tmp_path}/the out'` goes on" in caught.value.hint
    assert run(group, ["sweep", "--show", str(tmp_path / "the out"), "--csv"]) == 0
    assert capsys.readouterr().out.count("\n") == 2


@pytest.mark.parametrize(("device", "kinds"), [(None, ["timed"]), ("H200", ["timed", "counted"])])
def test_progress_ends_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str | None, kinds: list[str]
) -> None:
    stages: list[Any] = []
    monkeypatch.setattr(sweep_run, "shown_progress", lambda: nullcontext(stages.append))
    monkeypatch.setattr(sweep_run, "_measure_ceilings", lambda _: None)
    about = {"device": device, "torch": "2", "dtype": "float32"}
    said = [about, {**point(1, NS)[0], "kind": "again"}]
    said[1:1] = [each for v in SPEC["values"] for each in point(v, NS) if each["kind"] in kinds]
    program = "\n".join(f"print({json.dumps(message)!r})" for message in said)
    command = (sweep_run.sys.executable, "-c", program)
    sweep_run.run(sweep_run.Wanted(spec=SPEC), tmp_path / "out", command=command)
    fractions = [stage.fraction for stage in stages[1:]]
    assert fractions == [pytest.approx((i + 1) / len(fractions)) for i in range(len(fractions))]
    assert len(fractions) == len(said) - 1


CHILD = """
import json, os, sys
done = json.load(sys.stdin)["done"]
def say(message): print(json.dumps(message), flush=True)
say({"device": None, "torch": "2", "dtype": "float32"})
for value in (1, 2, 64):
    if str(value) in done:
        continue
    say({"begin": value})
    if value == 2:
        ENDS
    say({"value": value, "kind": "timed", "eager_ns": [value, value, value]})
"""


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ("os.kill(os.getpid(), 9)", "its process died: it was killed by SIGKILL"),
        # The point's error is told, and the device is lost behind it.
        ('say({"value": 2, "kind": "failed", "reason": "illegal access"}); sys.exit(1)', "illegal"),
    ],
)
def test_a_point_that_kills_its_process_ends_alone(
    tmp_path: Path, capsys: Capture, ends: str, reason: str
) -> None:
    command = (sweep_run.sys.executable, "-c", CHILD.replace("ENDS", ends))
    sweep_run.run(sweep_run.Wanted(spec=SPEC), tmp_path / "out", command=command)
    assert run(group, ["sweep", "--show", str(tmp_path / "out"), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["batch"], row["eager_ns"]) for row in rows] == [
        ("1", "1"),
        ("2", ""),
        ("64", "64"),
    ]
    assert reason in rows[1]["failed"]


def test_a_point_that_failed_is_tried_again_and_its_new_outcome_holds(
    tmp_path: Path, capsys: Capture
) -> None:
    fails = 'say({"value": 2, "kind": "failed", "reason": "too large"}); continue'
    for ends, failed in ((fails, "too large"), ("pass", ""), ("raise SystemExit(1)", "")):
        command = (sweep_run.sys.executable, "-c", CHILD.replace("ENDS", ends))
        sweep_run.run(sweep_run.Wanted(spec=SPEC), tmp_path / "out", command=command)
        assert run(group, ["sweep", "--show", str(tmp_path / "out"), "--csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [row["failed"] for row in rows] == ["", failed, ""]


def test_drift_is_told_of_the_first_point_alone(tmp_path: Path, capsys: Capture) -> None:
    # Batch 64 was the first point of an earlier run, and was measured again at its end.
    again = {"value": 64, "kind": "again", "eager_ns": [2_000_000]}
    out = write(tmp_path / "grown", ABOUT, *point(64, 1_960_000), again, *point(1, 60_000))
    assert run(group, ["sweep", "--show", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drift_share"] is None


@pytest.mark.parametrize("signal_number", [9, 15])
def test_a_sweep_whose_smallest_point_kills_it_or_that_is_stopped_ends(
    tmp_path: Path, signal_number: int
) -> None:
    killed = 1 if signal_number == 9 else 2
    program = CHILD.replace("value == 2", f"value == {killed}")
    program = program.replace("ENDS", f"os.kill(os.getpid(), {signal_number})")
    command = (sweep_run.sys.executable, "-c", program)
    with pytest.raises(sweep_run.DecodeprofError, match="stopped before its end"):
        sweep_run.run(sweep_run.Wanted(spec=SPEC), tmp_path / "out", command=command)


def test_where_every_point_failed_the_reasons_are_told(tmp_path: Path, capsys: Capture) -> None:
    failed = [{"value": v, "kind": "failed", "reason": "out of memory"} for v in (1, 2, 64)]
    out = write(tmp_path / "failed", ABOUT, *failed)
    assert run(group, ["sweep", "--show", str(out)]) == 0
    assert capsys.readouterr().out.count("left out: out of memory") == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "what is to be varied?"),
        (["--vary", "batch"], "names nothing to vary"),
        (["--vary", "batch=1,x"], "`x` is none"),
        (["--vary", "batch=1,0"], "`0` is none"),
        (["--vary", "batch=1,,2"], "`1,,2` has nothing between the commas"),
        (["--vary", "batch="], "there is none"),
        (["--vary", "batch=1", "--vary", "context=8"], "`--vary` is given twice"),
        (["--vary", "batch=1", "--width-of-model", "7"], "the width 7 is no multiple of"),
        (["--vary", "width=64,100"], "nearest: 96 and 128"),
        (["--vary", "batch=1,1"], "a value twice"),
        (["--show", "x", "--vary", "batch=1"], "`--show` runs nothing"),
        (["--vary", "batch=1", "--arg", "x=1"], "`--arg` is for a target"),
        (["--vary", "batch=1", "--csv", "--json"], "`--csv` does not go with `--json`"),
        (["--vary", "heads=1"], "`heads` is no axis of decode"),
        (["--vary", "batch=1", "--shape", "7b"], "there is no shape `7b`"),
        (["--vary", "batch=99999999999999999999"], "is too large"),
        (["--vary", "batch=1", "--device", "tpu"], "`tpu` is no device"),
        (["--vary", "batch=1,2", "--today", "3"], "`--today 3` is no point"),
        (["--vary", "batch=1", "--live", "1:x"], "is no histogram"),
        (["--vary", "batch=1", "--live", ""], "is no histogram"),
        (["--vary", "batch=1", "--live", "1:0"], "counts of at least 1"),
        (["--vary", "batch=1", "--buckets", "1"], "`--buckets` needs `--live`"),
        (["--vary", "batch=1", "--live", "9:1", "--buckets", "8"], "fits no bucket"),
        (["--vary", "prompt=8", "--live", "1:1"], "`--live` is for a sweep over batch"),
        (["s.py:f", "--vary", "n=1", "--fused"], "`--fused` says nothing of a target"),
        (["s.py:f", "--vary", "n=1", "--width-of-model", "8"], "`--width-of-model` says nothing"),
        (["--vary", "prompt=8", "--batch", "4"], "`--batch` says nothing of a prompt pass"),
        (["--vary", "batch=1", "--batch", "4"], "`--batch` says nothing of a decode step over"),
        (["--vary", "batch=1", "--batch", "4"], "hint: leave it out"),
        (["toy", "--vary", "batch=1", "--context", "4"], "`--context` says nothing of the toy"),
        (["s.py:f", "--vary", "n=1"], "there is no file `s.py`"),
        (["decodeprof.units:time", "--vary", "size=1"], "`--vary size` was given"),
    ],
)
def test_what_was_asked_wrongly_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: list[str],
    problem: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(group, ["sweep", *arguments]) == 2
    assert problem in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("target", ["toy", "s.py:f"])
def test_a_file_in_its_place_is_not_written_over(
    tmp_path: Path, capsys: Capture, target: str
) -> None:
    (tmp_path / "out").write_text("mine")
    arguments = ["sweep", target, "--vary", "batch=1", "--out", str(tmp_path / "out")]
    assert run(group, arguments) == 2
    assert "exists and holds no sweep" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("target", ["toy", "script.py:generate"])
@pytest.mark.parametrize("out", ["script.py/out", "/proc/out"])
def test_a_directory_that_cannot_be_made_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, target: str, out: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    toy = ["--layers", "1", "--width-of-model", "16"] if target == "toy" else []
    arguments = ["sweep", target, "--vary", "batch=1", "--out", out, "--device", "cpu"]
    assert run(group, [*arguments, *toy]) == 2
    assert f"cannot make the directory `{out}`" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["toy", "script.py:generate"])
def test_a_first_line_that_was_cut_off_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / POINTS_FILE).write_text('{"spec": {"pha')
    assert run(group, ["sweep", "--show", "out"]) == 1
    shown = capsys.readouterr().err
    assert "holds no point yet" in shown
    assert "damaged" not in shown
    toy = ["--layers", "1", "--width-of-model", "16"] if target == "toy" else []
    arguments = ["sweep", target, "--vary", "batch=1", "--out", "out", "--device", "cpu"]
    assert run(group, [*arguments, *toy]) == 0
    (point,) = json.loads((tmp_path / "out" / SWEEP_FILE).read_bytes())["points"]
    assert point["eager_ns"] is not None


def test_a_sweep_without_its_first_line_is_not_shown(tmp_path: Path, capsys: Capture) -> None:
    out = write(tmp_path / "headless", *point(1, 60_000), *point(2, 60_000))
    assert run(group, ["sweep", "--show", str(out)]) == 1
    assert "its first line does not say what was swept" in capsys.readouterr().err


def test_where_no_point_could_be_measured_the_sweep_failed(tmp_path: Path, capsys: Capture) -> None:
    vary = "layers=2000000000,2100000000"
    arguments = ["sweep", "--vary", vary, "--device", "cpu", "--out", str(tmp_path / "out")]
    assert run(group, arguments) == 1
    told = capsys.readouterr().err
    assert "no point could be measured" in told
    assert told.partition("no point could")[2].count("out of memory: needs about ") == 2


def test_fused_kernels_are_not_told_of_a_cpu(tmp_path: Path, capsys: Capture) -> None:
    about = {**ABOUT, "spec": {**SPEC, "fused": True}}
    on_gpu = write(tmp_path / "gpu", about, *point(1, 60_000))
    assert run(group, ["sweep", "--show", str(on_gpu)]) == 0
    assert "with fused kernels" in " ".join(capsys.readouterr().out.split())
    on_cpu = write(tmp_path / "cpu", {**about, "device": None}, point(1, 60_000)[0])
    assert run(group, ["sweep", "--show", str(on_cpu)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "with fused kernels" not in shown
    assert "asks for Triton kernels, and none can run on a CPU" in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--today", "3"], "`--today 3` is no point"),
        (["--live", "1"], "is no histogram"),
        (["--live", "1:1,1:2"], "the size 1 twice"),
        (["--buckets", "1"], "`--buckets` needs `--live`"),
        (["--live", "9:1", "--buckets", "8"], "a live batch of 9 fits no bucket"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    recorded: Path, capsys: Capture, arguments: list[str], problem: str
) -> None:
    assert run(group, ["sweep", "--show", str(recorded), *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_another_sweep_is_not_written_over(recorded: Path, capsys: Capture) -> None:
    before = (recorded / POINTS_FILE).read_bytes()
    vary = ["sweep", "--vary", "batch=1,2", "--out", str(recorded)]
    assert run(group, [*vary, "--shape", "8b"]) == 2
    assert "holds another sweep" in capsys.readouterr().err
    assert run(group, ["sweep", "s.py:f", *vary[1:]]) == 2
    assert "holds another sweep" in capsys.readouterr().err
    assert (recorded / POINTS_FILE).read_bytes() == before


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "no json\n",
        '{"device": 3}\n',
        '{"torch": "2"}\n{"value": "x", "kind": "timed"}\n',
        '{"torch": "2"}\n{"value": 1}\n',
        '{"torch": "2"}\n{"value": 1, "kind": "timed", "eager_ns": "fast"}\n',
        '{"torch": "2"}\nno json\n{"value": 1, "kind": "failed"}\n',
        '{"spec": {"phase": "toy", "axis": "batch", "width": 0}}\n{"value": 1, "kind": ""}\n',
    ],
)
def test_a_damaged_sweep_is_no_traceback(tmp_path: Path, capsys: Capture, lines: str) -> None:
    (tmp_path / POINTS_FILE).write_text(lines)
    assert run(group, ["sweep", "--show", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "damaged" in error or "holds no point yet" in error
