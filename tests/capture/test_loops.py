"""Recordings of loops that run elsewhere, or that never end by themselves."""

from concurrent.futures import Future

from decodeprof import mark
from decodeprof.diagnosis.pipeline import analyze_path
from tests.capture.conftest import Ran
from tests.capture.test_record import marks

Runs = dict[str, Future[Ran]]


def test_a_loop_in_a_thread_of_its_own_is_traced(runs: Runs) -> None:
    ran = runs["in_a_thread"].result()
    assert len(marks(ran, mark.FORWARD)) == 10
    assert analyze_path(ran.out).diagnosis.steps.decode == 9
    assert ran.caveats == ""


def test_an_endless_generator_is_recorded_for_as_many_tokens_as_were_asked_for(runs: Runs) -> None:
    ran = runs["endless"].result()
    assert ran.error is None
    assert ran.recording is not None
    assert ran.recording.timing is not None
    assert {run.steps for run in ran.recording.timing.runs} == {8}
    assert ran.recording.target.new_tokens == 9
