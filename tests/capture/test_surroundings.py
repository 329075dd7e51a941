"""Failures in words, compile's logs, processes, models, and loops without modules."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import fx, nn

from decodeprof.capture import loopmark
from decodeprof.capture.about import environment, largest_model, model_info
from decodeprof.capture.compiled import CompileWatch
from decodeprof.capture.failure import explain
from decodeprof.capture.places import PYTHON, Places
from decodeprof.capture.processes import descendants, holders

HERE = Path(__file__)


def failure(function, during: str = "in call 1"):  # type: ignore[no-untyped-def]
    try:
        function()
    except BaseException as error:
        return explain(error, during=during, places=Places(str(HERE.parent)))
    raise AssertionError


def test_frames_of_libraries_are_left_out_but_the_innermost() -> None:
    told = failure(lambda: torch.zeros(2).view(3))
    lines = told.why.splitlines()
    assert all(line.startswith("test_surroundings.py:") for line in lines[:-1])
    assert lines[-1].startswith("RuntimeError: shape '[3]' is invalid")
    deep = failure(lambda: nn.Linear(2, 2)(torch.zeros(3)))
    assert deep.why.splitlines()[-2].startswith("torch/nn/modules/linear.py:")


def test_running_out_of_memory_is_told_apart() -> None:
    def gpu() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    def host() -> None:
        raise MemoryError

    assert failure(gpu).what == "the GPU ran out of memory in call 1"
    assert "CUDA out of memory. Tried to allocate 2.00 GiB." in failure(gpu).why
    assert "batch" in failure(gpu).hint
    assert failure(host).what == "the machine ran out of memory in call 1"


def test_late_cuda_errors_get_a_hint() -> None:
    def fail() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\n" + "x\n" * 20)

    told = failure(fail)
    assert "CUDA_LAUNCH_BLOCKING=1" in told.hint
    assert told.why.splitlines()[-1] == "…"


def test_a_syntax_error_shows_its_place(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def generate(:\n    pass\n")
    try:
        compile(path.read_text(), str(path), "exec")
    except SyntaxError as error:
        told = explain(error, during="while importing", places=Places(str(tmp_path)))
    assert 'File "broken.py", line 1' in told.why
    assert str(tmp_path) not in told.why


def test_file_names_are_never_absolute() -> None:
    places = Places(str(HERE.parent))
    assert places.shorten(str(HERE)) == "test_surroundings.py"
    assert places.shorten(torch.__file__) == "torch/__init__.py"
    assert places.shorten(os.__file__) == f"{PYTHON}/os.py"
    assert places.shorten("/nowhere/to/be/found.py") == "be/found.py"
    assert places.shorten("<string>") == "<string>"
    assert places.is_torch(torch.__file__)
    assert not places.is_package(str(HERE))


def test_why_no_graph_was_used_is_kept_from_compiles_log() -> None:
    watch = CompileWatch()
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    import torch._inductor.cudagraph_utils as utils
    from torch._dynamo.utils import counters

    counters["inductor"].clear()
    place = f'{HERE}", line 12, in step'
    text = "skipping cudagraphs due to skipping cudagraphs due to mutated inputs (1 instances). "
    for _ in range(2):
        utils.log_cudagraph_skip_and_bump_counter(f'{text}Found from : \n   File "{place}')
    utils.log_cudagraph_skip_and_bump_counter("disabling cudagraphs due to incompatible op x")
    utils.cudagraphs_log.warning("something else")
    counters["inductor"]["cudagraph_skips"] += 1
    info = watch.info(Places(str(HERE.parent)))
    assert info is not None
    assert [(skip.where, skip.count) for skip in info.cudagraph_skips] == [
        ("test_surroundings.py:12", 2),
        (None, 1),
        (None, 1),
    ]
    assert "mutated inputs" in info.cudagraph_skips[0].reason
    assert info.cudagraph_skips[2].reason == "no reason was logged"
    assert str(HERE.parent) not in info.cudagraph_skips[0].reason


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")
def test_asking_for_graphs_is_noticed_and_logging_is_the_users() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("torch").level)
    watch = CompileWatch()
    assert (root.level, list(root.handlers), logging.getLogger("torch").level) == before
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    info = watch.info(Places(str(HERE.parent)))
    assert info is not None
    assert info.cudagraphs_asked is False
    torch.compile(lambda x: x, mode="reduce-overhead")
    info = watch.info(Places(str(HERE.parent)))
    assert info is not None
    assert info.cudagraphs_asked is True


def test_graph_breaks_and_recompiles_are_listed() -> None:
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    watch = CompileWatch()

    @torch.compile(backend="eager", dynamic=False)
    def step(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    step(torch.ones(2))
    step(torch.ones(3))
    info = watch.info(Places(str(HERE.parent)))
    assert info is not None
    assert len(info.graph_breaks) >= 1
    assert any("size" in reason for reason in info.recompiles)
    line = step.__wrapped__.__code__.co_firstlineno + 2  # type: ignore[attr-defined]
    told = {(event.kind, event.where) for event in info.events}
    assert ("graph_break", f"{HERE.name}:{line}") in told
    assert [event.reason for event in info.events if event.kind == "recompile"]
    assert all("\n" not in event.reason and "/0:" not in event.reason for event in info.events)


def test_a_recompile_is_one_however_many_versions_did_not_do() -> None:
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.guard_failures.clear()
    watch = CompileWatch()

    @torch.compile(backend="eager", dynamic=False)
    def step(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    for size in (2, 3, 4, 5):
        step(torch.ones(size))
    info = watch.info(Places(str(HERE.parent)))
    assert info is not None
    recompiles = [event.reason for event in info.events if event.kind == "recompile"]
    assert len(info.recompiles) > len(recompiles), "each version has a reason"
    assert [each.rpartition(" ")[2] for each in recompiles] == ["3", "4", "5"]


def test_partitions_are_heard_of_and_nobody_else_is_shown_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("torch._inductor.scheduler.__cudagraphs")
    try:
        watch = CompileWatch()
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        logger.debug("Created %d graph partitions: %d cudagraphable, %d non-cudagraphable", 3, 2, 1)
        logger.debug("    buf0: reason=cpu ops, ir=Pointwise")
        logger.debug('           File "%s", line 40, in step', HERE)
        logger.debug(
            "Partition %d has %d kernels, below minimum size %d, skipping cudagraph", 1, 1, 3
        )
        logger.debug("Created 2 graph partitions: 1 cudagraphable, 1 non-cudagraphable")
        info = watch.info(Places(str(HERE.parent)))
    finally:
        logger.setLevel(logging.NOTSET)
        logger.filters.clear()
    assert info is not None
    assert info.partitions == 3
    assert info.partition_reasons == [f"buf0: reason=cpu ops, ir=Pointwise ({HERE.name}:40)"]
    assert info.cudagraph_skips == []
    assert [each for each in caplog.records if each.name == logger.name] == []


def test_processes_below_ours_that_hold_a_file_open(tmp_path: Path) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    code = f"import sys; f = open({str(device)!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        below = descendants(os.getpid())
        assert process.pid in below
        found = holders(below, prefix=str(tmp_path / "nvidia"))
        assert [holder.pid for holder in found] == [process.pid]
        assert found[0].command.startswith(Path(sys.executable).name)
        assert holders(below, prefix=str(tmp_path / "other")) == []
        process.communicate()


class Tied(nn.Module):
    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False, dtype=torch.float32)
        if tied:
            self.head.weight = self.embed.weight
        self.register_buffer("table", torch.zeros(3, dtype=torch.float64))


def test_storage_is_counted_once() -> None:
    tied, apart = model_info([Tied(tied=True)]), model_info([Tied(tied=False)])
    assert tied is not None
    assert apart is not None
    assert (tied.parameter_bytes, tied.embedding_bytes, tied.parameters) == (160, 0, 40)
    assert (apart.parameter_bytes, apart.embedding_bytes) == (320, 160)
    assert apart.buffer_bytes == 24
    assert apart.dtypes == {"float32": 320}
    assert model_info([]) is None
    model = Tied(tied=False)
    parts = model_info([model.embed, model.head, model])
    assert parts is not None
    assert parts.parameter_bytes == 320


def test_the_largest_model_is_no_part_and_no_compilers_copy() -> None:
    small, inner = Tied(tied=True), Tied(tied=False)
    large = nn.Sequential(inner)
    copy = fx.symbolic_trace(nn.Sequential(inner.head))
    copy.register_module("embed", inner.embed)
    alive = [copy, inner.head, *small.modules(), *large.modules()]
    assert largest_model(alive, device_type="cpu") is large
    assert largest_model(alive, device_type="cuda") is None
    # Two that share a storage are no larger than one that has another.
    assert largest_model([inner.embed, small], device_type="cpu") is inner.embed
    unmade = nn.Module.__new__(nn.Linear)
    assert largest_model([unmade, nn.LazyLinear(3), small], device_type="cpu") is small
    assert largest_model([nn.ReLU()], device_type="cpu") is None


def test_the_environment_holds_versions_and_no_names() -> None:
    found = environment()
    assert found.torch == str(torch.__version__)
    assert found.cpu_count >= 1
    assert set(found.packages) <= {"numpy", "transformers", "triton"}


LOOPS = """
def generate(n):
    total = 0
    for i in range(n):
        total += i
        for j in range(2):
            total += j
    return total


def twice(n):
    for i in range(n):
        i + 1
    for i in range(n):
        i + 2


def before(n):
    value = 1
    while n > 1:
        n -= 1
        value += 1
    return value
"""


def test_loops_of_a_function_and_the_one_that_makes_tokens(tmp_path: Path) -> None:
    path = tmp_path / "loops.py"
    path.write_text(LOOPS)
    names: dict[str, object] = {}
    exec(compile(LOOPS, str(path), "exec"), names)
    code = loopmark.code_of(names["generate"])
    assert code is not None
    found = loopmark.loops(code)
    assert found == [(0, 5), (1, 7)]
    assert loopmark.choose_line(found, {5: 8, 7: 16}, tokens=8) == 5
    assert loopmark.choose_line(found, {5: 7, 7: 14}, tokens=8) == 5
    assert loopmark.choose_line(found, {5: 1, 7: 8}, tokens=8) == 7
    assert loopmark.choose_line(found, {5: 8, 7: 16}, tokens=None) == 5
    assert loopmark.choose_line(found, {5: 2, 7: 2}, tokens=None) is None
    twice = loopmark.code_of(names["twice"])
    assert twice is not None
    assert loopmark.choose_line(loopmark.loops(twice), {13: 4, 15: 4}, tokens=4) is None
    assert loopmark.code_of(len) is None


WATCH = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("loopmark", sys.argv[1])
loopmark = importlib.util.module_from_spec(spec)
sys.modules["loopmark"] = loopmark
spec.loader.exec_module(loopmark)
sys.path.insert(0, sys.argv[2])
import loops
code = loopmark.code_of(loops.generate)
watch = loopmark.LineWatch(code)
counts = watch.count()
loops.generate(9)
watch.stop()
line = loopmark.choose_line(loopmark.loops(code), counts, tokens=9)
heard = []
watch.report(line, lambda: heard.append(line))
loops.generate(4)
loops.twice(4)
loops.generate(3)
watch.stop()
loops.generate(5)
assert line == 5, line
assert len(heard) == 7, heard
"""


def _newer_python() -> str | None:
    if loopmark.SUPPORTED:
        return sys.executable
    for name in ("python3.12", "python3.13", "python3.14"):
        for folder in os.environ.get("PATH", "").split(":"):
            path = Path(folder) / name
            runs = path.exists() and subprocess.run(
                [path, "-c", ""], check=False, capture_output=True
            )
            if runs and runs.returncode == 0:
                return str(path)
    return None


def test_lines_are_reported_where_python_can(tmp_path: Path) -> None:
    python = _newer_python()
    if python is None:
        pytest.skip("needs Python 3.12 or later")
    (tmp_path / "loops.py").write_text(LOOPS)
    source = Path(loopmark.__file__)
    done = subprocess.run(
        [python, "-c", WATCH, str(source), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
