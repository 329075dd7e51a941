"""Each thing that a graph would suffer from is found, on its line, and nothing else is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from decodeprof import mark
from decodeprof.analysis.linted import lint_report
from decodeprof.capture.channel import Channel
from decodeprof.capture.job import Job
from decodeprof.capture.places import Places
from decodeprof.capture.target import parse_spec
from decodeprof.lint.judge import Judging
from decodeprof.model.lint import LintReport

TARGETS = Path(__file__).parent / "targets" / "loops.py"
HOST_TARGET = TARGETS.with_name("on_the_host.py")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lint a function of the targets' script, in this process."""
    # What importing a script changes, in a process that is made for it.
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))

    def lint(name: str, *args: str, script: Path = TARGETS) -> LintReport:
        monkeypatch.delitem(sys.modules, script.stem, raising=False)
        target = f"{script}:{name}"
        with open(os.devnull, "wb") as sink:
            judging = Judging(
                Job(target=target, args=list(args)),
                parse_spec(target),
                places=Places(str(TARGETS.parent)),
                channel=Channel(sink.fileno()),
            )
            return lint_report(judging.run())

    return lint


def found(report: LintReport, kind: str) -> list[str]:
    """The lines at which a kind of hazard was found."""
    assert report.hazards is not None
    return [hazard.place.code for hazard in report.hazards if hazard.kind == kind]


def kinds(report: LintReport) -> set[str]:
    assert report.hazards is not None
    return {hazard.kind for hazard in report.hazards}


def test_a_clean_step_has_no_hazard(judge: Any) -> None:
    report = judge("clean")
    assert report.hazards == []
    assert report.decode_steps == 6
    assert report.ops_per_step is not None
    assert report.ops_per_step > 5
    assert [sync.place.code for sync in report.syncs if sync.per_step] == []


def test_a_number_that_would_be_baked_in(judge: Any) -> None:
    report = judge("counter")
    assert kinds(report) == {"scalar"}
    (hazard,) = report.hazards
    assert hazard.place.code == "return self.head(torch.tanh(self.embed(ids) + shift))"
    assert hazard.severity == "wrong"
    assert "1.5 → 2.0" in hazard.summary
    assert hazard.inside == "forward"


def test_steps_that_are_graphs_already_are_not_taken_apart(judge: Any) -> None:
    report = judge("replaying")
    assert report.replays_per_step == 1
    assert report.hazards is None
    assert "replay CUDA graphs already" in report.why_no_hazards
    (sync,) = [each for each in report.syncs if each.per_step]
    assert (sync.place.code, sync.per_step) == ("made.append(int(token))", 1.0)


def test_a_read_inside_of_a_capture_is_said_to_be_refused(judge: Any) -> None:
    (caveat,) = [text for text in judge("reading_while_captured").caveats if "refuse" in text]
    line = 1 + TARGETS.read_text().splitlines().index("        first = int(token)")
    assert f"refuse _local_scalar_dense at loops.py:{line}: a stream is being captured" in caveat
    assert not [text for text in judge("replaying").caveats if "refuse" in text]


def test_marks_of_the_target_begin_its_steps(judge: Any) -> None:
    report = judge("marked")
    assert report.decode_steps == 6
    assert kinds(report) == {"scalar"}
    assert report.replays_per_step == 0
    assert mark._observer is None


def test_a_shape_that_grows(judge: Any) -> None:
    report = judge("growing")
    assert found(report, "shape") == ["tokens = torch.cat([tokens, last], 1)"]
    (hazard,) = [each for each in report.hazards if each.kind == "shape"]
    assert "(1, 5) → (1, 6)" in hazard.summary
    assert hazard.inside == "loop"


def test_operations_that_depend_on_data(judge: Any) -> None:
    report = judge("branching")
    assert found(report, "sequence") == ["logits = logits.softmax(-1)"]
    assert found(report, "sync") == ["made.append(int(token))"]
    (sync,) = [each for each in report.syncs if each.per_step]
    assert (sync.per_step, sync.in_decode, sync.in_prefill, sync.in_last) == (1.0, 6, 1, 1)


def test_results_that_a_replay_would_overwrite(judge: Any) -> None:
    report = judge("keeping")
    code = "last = model(token)[:, -1].argmax(-1, keepdim=True)"
    assert found(report, "kept_output") == [code]


def test_random_numbers_that_begin_anew(judge: Any) -> None:
    report = judge("seeding")
    assert kinds(report) == {"generator"}
    assert found(report, "generator") == ["torch.manual_seed(number)"]


def test_events_that_are_asked_and_copies_that_are_kept(judge: Any) -> None:
    report = judge("asking")
    assert [sync for sync in report.syncs if sync.per_step] == []
    assert found(report, "sync") == ["while not event.query():"]
    assert found(report, "kept_output") == ['kept.append(token.to("cpu", non_blocking=True))']
    assert kinds(report) == {"sync", "kept_output"}


def test_memory_of_the_host(judge: Any) -> None:
    report = judge("copying")
    code = "bias = torch.zeros(32).to(DEVICE, non_blocking=True)"
    assert found(report, "host_tensor") == [code]
    assert [(copy.place.code, copy.per_step) for copy in report.copies if copy.per_step] == [
        (code, 1.0)
    ]
    assert found(report, "sync") == []


def test_an_operation_that_a_gpu_would_refuse(judge: Any) -> None:
    report = judge("mixing")
    line = 1 + TARGETS.read_text().splitlines().index(
        "        token.copy_((logits + offset).argmax(-1, keepdim=True))"
    )
    (caveat,) = [text for text in report.caveats if "refuse" in text]
    assert f"refuse add at loops.py:{line}:" in caveat
    assert "cuda:0 and on the host" in caveat


@pytest.mark.parametrize("name", ["clean", "copying", "growing", "own_generator"])
def test_what_a_gpu_runs_is_not_said_to_be_refused(judge: Any, name: str) -> None:
    assert not [text for text in judge(name).caveats if "refuse" in text]


def test_a_generator_of_its_own(judge: Any) -> None:
    report = judge("own_generator")
    assert kinds(report) == {"generator"}


def test_inputs_at_new_storages(judge: Any) -> None:
    report = judge("growing")
    # The token that the model reads is a slice of another tensor each step; its shape is the same.
    assert "return self.head(torch.tanh(self.embed(ids) + shift))" in found(report, "input")


def test_one_step_is_too_few(judge: Any) -> None:
    report = judge("clean", "steps=2")
    assert report.hazards is None
    assert "the call had 1;" in report.why_no_hazards


def test_a_target_that_never_names_a_device(judge: Any) -> None:
    report = judge("on_the_host", script=HOST_TARGET)
    assert not report.on_device
    assert report.syncs == []


def test_a_target_that_changes_torch_changes_nothing_here(judge: Any) -> None:
    before = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    report = judge("changes_torch")
    assert report.hazards == []
    after = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    assert after == before
    assert not torch.cuda.is_available()
    assert torch.ones(1).device.type == "cpu"
