"""A step is captured inside its own loop, and what a replay gets wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from decodeprof.analysis.graph_checked import checked
from decodeprof.capture.graph_check.checking import CannotCheck
from decodeprof.errors import UsageError

Check = Any


def only(run: Any) -> Any:
    (attempt,) = run.attempts
    return attempt


def test_a_step_with_its_state_in_buffers_is_captured_and_replaced(check: Check) -> None:
    run = check("static")
    attempt = only(run)
    assert (run.step, run.found_by, run.calls) == ("Static", "forward", 12)
    assert attempt.captured
    assert attempt.matches
    assert attempt.differences == []
    assert attempt.same_result
    assert attempt.static_inputs == ["x"]
    assert attempt.python_changes == []
    # Sixty-four rows of eight floats, and one position.
    assert attempt.state_bytes == 64 * 8 * 4 + 8
    assert attempt.before.n == 15
    assert attempt.after.n == 5
    assert run.whole_step.captured


def test_a_generator_is_no_other_target(check: Check) -> None:
    attempt = only(check("streamed"))
    assert attempt.matches
    assert attempt.same_result


def test_the_second_input_shows_a_baked_counter_and_the_counter_is_named(check: Check) -> None:
    attempt = only(check("counting"))
    assert attempt.captured
    assert attempt.matches is False
    assert [each.input for each in attempt.differences] == [2]
    assert [(each.name, each.text) for each in attempt.python_changes] == [
        ("self.position", "4 → 5")
    ]
    assert attempt.after is None


def test_a_counter_of_the_script_is_named_too(check: Check) -> None:
    attempt = only(check("global_counter", step="counted"))
    assert attempt.matches is False
    assert [each.name for each in attempt.python_changes] == ["calls_made"]


def test_a_step_of_two_models_is_told_to_be_more_than_one(check: Check) -> None:
    run = check("two_models")
    assert only(run).matches
    assert any("calls several modules" in each for each in run.caveats)
    assert check("static").caveats == []


def test_a_loop_that_keeps_what_a_replay_overwrites_is_told(check: Check) -> None:
    run = check("kept")
    assert only(run).matches
    assert only(run).same_result is False
    found = checked(run)
    assert "but with replays the target returned something else" in found.sentence
    assert found.hazards is not None


def test_a_module_whose_class_is_made_anew_is_not_found_again(check: Check) -> None:
    with pytest.raises(CannotCheck, match="called 0 times") as caught:
        check("made_anew")
    assert "make it outside" in caught.value.hint


def test_a_cache_that_grows_is_named(check: Check) -> None:
    run = check("growing")
    attempt = only(run)
    assert attempt.matches is False
    (change,) = attempt.python_changes
    assert change.name == "self.cache"
    assert change.grows
    assert change.text == "bound to a new tensor, (4, 8) → (5, 8)"
    assert run.record is not None


def test_a_refusal_is_told_with_the_line_and_nothing_more_is_captured(check: Check) -> None:
    run = check("refusing")
    attempt = only(run)
    assert not attempt.captured
    assert attempt.error.phase == "capture"
    assert attempt.error.message.startswith("CUDA error: operation not permitted")
    assert attempt.error.place.code == "raise RuntimeError(REFUSED)"
    assert attempt.error.place.function == "Refusing.forward"
    assert attempt.before is not None
    assert run.whole_step is None


def test_a_refusal_that_cannot_say_what_it_is_still_has_its_line(check: Check) -> None:
    error = only(check("refusing_without_words")).error
    assert (error.kind, error.place.code) == ("Speechless", "raise Speechless")


def test_the_loop_around_a_good_step_is_refused_by_itself(check: Check) -> None:
    run = check("refusing_outside")
    assert only(run).matches
    assert not run.whole_step.captured
    assert run.whole_step.error.place.function == "refusing_outside"


def test_random_numbers_are_drawn_again(check: Check) -> None:
    attempt = only(check("drawing"))
    assert attempt.captured
    assert attempt.why_unknown == ""


def test_a_named_function_is_captured_for_each_bucket(check: Check) -> None:
    run = check("batched", step="one_step", buckets=["batch=1,3"])
    assert [each.bucket for each in run.attempts] == ["batch=1", "batch=3"]
    assert all(each.matches and each.same_result for each in run.attempts)
    assert [each.static_input_bytes for each in run.attempts] == [32, 96]
    assert run.found_by == "step"


def test_a_python_argument_that_changes_is_named(check: Check) -> None:
    attempt = only(check("by_position", step="moved"))
    assert attempt.matches is False
    assert attempt.changed_inputs == ["position: 4 → 5"]


def test_too_few_steps_are_told(check: Check) -> None:
    with pytest.raises(CannotCheck, match="called 3 times") as caught:
        check("static", "new_tokens=3")
    assert "--arg" in caught.value.hint


def test_a_loop_without_modules_asks_for_the_step(check: Check) -> None:
    with pytest.raises(CannotCheck, match="no step was found") as caught:
        check("batched")
    assert "--step" in caught.value.hint


def test_a_step_that_does_not_exist_is_asked_wrongly(check: Check) -> None:
    with pytest.raises(UsageError, match="one_stop") as caught:
        check("batched", step="one_stop")
    assert "one_step" in caught.value.hint


def test_a_module_that_does_not_exist_is_asked_wrongly(check: Check) -> None:
    with pytest.raises(UsageError, match="names no module"):
        check("batched", step="no_such_module:step")
