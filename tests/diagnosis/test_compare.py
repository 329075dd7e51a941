from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from decodeprof.diagnosis.compare import compare
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.model import diagnosis as d
from decodeprof.report.comparison import comparison_view
from decodeprof.report.terminal import text
from tests.report.diagnoses import DISTRIBUTION, cpu_run, figures, foreign_trace, full

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def with_step(base: d.Diagnosis, **changes: object) -> d.Diagnosis:
    return msgspec.structs.replace(base, step=figures(**changes))


def predicting(name: str, expected: int, *, profiled: bool = False) -> d.WhatIfs:
    told = d.WhatIf(
        step_ns=d.Range(low=expected - 100, expected=expected, high=expected + 100),
        in_profiled_time=profiled,
        assumes="nothing",
    )
    return d.WhatIfs(**{name: told})


def took(ns: int) -> d.Distribution:
    return d.Distribution(median=ns, p10=ns - 10, p90=ns + 10, n=9)


def test_nothing_changed_is_no_prediction() -> None:
    found = compare(full(), full())
    assert found.prediction is None
    assert "as far as the counts show" in (found.why_no_prediction or "")
    assert all(m.before == m.after for m in found.measures)
    assert found.gone == found.came == []


@pytest.mark.parametrize(
    ("after", "change"),
    [
        ({"graph_launches": 1.0, "launches": 3.0}, "cuda_graph"),
        ({"graph_launches": 1.0, "launches": 3.0, "kernels": 400.0}, "all"),
        ({"kernels": 400.0, "launches": 400.0}, "fusion"),
        ({"syncs": 0.0}, "no_syncs"),
    ],
)
def test_the_change_is_read_off_the_counts(after: dict[str, object], change: str) -> None:
    before = msgspec.structs.replace(full(), what_if=predicting(change, 1_050))
    found = compare(before, with_step(full(), unprofiled_ns=took(1_000), **after)).prediction
    assert found is not None
    assert (found.change, found.measured_ns, found.error_share) == (change, 1_000, 0.05)
    assert found.in_range


def test_counts_that_are_unknown_show_no_change() -> None:
    found = compare(full(), with_step(full(), kernels=None, launches=None))
    assert found.prediction is None
    assert "not known on both sides" in (found.why_no_prediction or "")
    before = msgspec.structs.replace(full(), what_if=predicting("no_syncs", 1_050))
    assert compare(before, with_step(full(), syncs=None)).prediction is None


def test_a_finding_that_the_other_could_not_look_for_has_not_gone() -> None:
    (finding,) = full().findings
    seen = msgspec.structs.replace(
        full(), findings=[finding, msgspec.structs.replace(finding, code="graph-missing")]
    )
    untold = d.Skipped(code="graph-missing", reason="no trace", capture="one")
    blind = msgspec.structs.replace(full(), findings=[], skipped=[untold])
    found = compare(seen, blind)
    assert (found.gone, found.came, found.untold) == ([finding.code], [], ["graph-missing"])
    other = compare(blind, seen)
    assert (other.gone, other.came, other.untold) == ([], [finding.code], ["graph-missing"])
    assert "could not tell" in text(comparison_view(found), width=100)


def test_times_without_a_spread_that_are_alike_are_no_difference() -> None:
    unknown = {"unprofiled_ns": None, "profiled_p10_ns": None, "profiled_p90_ns": None}
    alone = with_step(full(), profiled_ns=1_000_000, **unknown)
    near = with_step(full(), profiled_ns=1_001_000, **unknown)
    assert "No difference that can be told" in text(
        comparison_view(compare(alone, near)), width=100
    )


def test_a_prediction_outside_its_range_is_said_to_be() -> None:
    before = msgspec.structs.replace(full(), what_if=predicting("no_syncs", 2_000))
    found = compare(before, with_step(full(), unprofiled_ns=took(1_000), syncs=0.0)).prediction
    assert found is not None
    assert not found.in_range
    assert not found.by_chance
    assert found.error_share == 1.0


def test_a_prediction_in_profiled_time_is_held_against_a_profiled_time() -> None:
    before = msgspec.structs.replace(full(), what_if=predicting("no_syncs", 900, profiled=True))
    after = with_step(full(), syncs=0.0, unprofiled_ns=took(1), profiled_ns=1_000)
    found = compare(before, after)
    assert found.prediction is not None
    assert found.prediction.measured_ns == 1_000
    assert found.prediction.in_profiled_time
    # Of the prediction and of what was measured.
    assert text(comparison_view(found), width=100).count("in profiled time") == 2


def test_an_unprofiled_prediction_is_of_no_profiled_time() -> None:
    before = msgspec.structs.replace(full(), what_if=predicting("no_syncs", 900))
    found = compare(before, with_step(full(), syncs=0.0, unprofiled_ns=took(1_000)))
    assert found.prediction is not None
    assert not found.prediction.in_profiled_time
    assert "in profiled time" not in text(comparison_view(found), width=100)


def test_what_was_not_predicted_is_not_made_up() -> None:
    before = msgspec.structs.replace(full(), what_if=d.WhatIfs())
    found = compare(before, with_step(full(), syncs=0.0))
    assert found.prediction is None
    assert "predicted nothing" in (found.why_no_prediction or "")


def samples(median: int, low: int, high: int, n: int) -> d.Diagnosis:
    return with_step(full(), unprofiled_ns=d.Distribution(median=median, p10=low, p90=high, n=n))


def test_medians_that_chance_may_part_are_no_difference() -> None:
    near = samples(DISTRIBUTION.median + 100, 49_200_000, 50_900_000, 312)
    found = compare(full(), near)
    assert found.measures[0].alike is True
    told = text(comparison_view(found), width=100)
    assert "No difference that can be told from chance" in told
    assert "not told apart" in told
    assert "by more than 2 standard errors" in told
    assert compare(full(), with_step(full(), unprofiled_ns=took(9))).measures[0].alike is False


def test_spreads_that_overlap_do_not_hide_medians_that_many_samples_tell_apart() -> None:
    before = samples(23_400_000, 22_500_000, 24_800_000, 87)
    after = samples(52_200_000, 23_000_000, 90_000_000, 87)
    step = compare(before, after).measures[0]
    assert step.alike is False
    # 2 x hypot(1.25 x 2.3 / 2.56 / sqrt(87), 1.25 x 67 / 2.56 / sqrt(87)) ms
    assert step.told_apart_ns == pytest.approx(7.019e6, rel=1e-3)
    assert "2.23 × slower" in text(comparison_view(compare(before, after)), width=100)
    few = samples(52_200_000, 23_000_000, 90_000_000, 3)
    assert compare(before, few).measures[0].alike is True


def test_runs_of_one_program_differ_by_more_than_their_samples_show() -> None:
    before = samples(10_000_000, 9_990_000, 10_010_000, 87)
    near, far = (samples(ns, ns - 10_000, ns + 10_000, 87) for ns in (10_490_000, 10_510_000))
    assert compare(before, near).measures[0].alike is True
    assert compare(before, far).measures[0].alike is False


def test_one_sample_a_side_tells_nothing_beyond_what_runs_differ_by() -> None:
    one, two = (samples(ns, ns, ns, 1) for ns in (10_000_000, 20_000_000))
    found = compare(one, two)
    assert found.measures[0].alike is None
    assert found.measures[0].told_apart_ns is None
    assert "how far single steps vary is not known" in text(comparison_view(found), width=100)


def test_a_step_that_is_not_told_from_the_one_before_is_not_off_a_prediction_of_no_change() -> None:
    found = compare(
        analyze_path(FIXTURES / "plain_0p6b").diagnosis,
        analyze_path(FIXTURES / "stage_eager").diagnosis,
    )
    assert found.measures[0].alike is True
    assert found.prediction is not None
    assert (found.prediction.in_range, found.prediction.by_chance) == (False, True)
    told = " ".join(text(comparison_view(found), width=100).split())
    assert "outside its range, by no more than can be chance" in told


def test_a_run_without_steps_is_unknown_and_not_zero() -> None:
    found = compare(cpu_run(), full())
    assert {m.name for m in found.measures if m.before is None} >= {"kernels", "device busy"}
    assert "unknown" in text(comparison_view(found), width=100)


def test_the_graph_stage_came_out_as_its_eager_twin_predicted() -> None:
    found = compare(
        analyze_path(FIXTURES / "stage_eager").diagnosis,
        analyze_path(FIXTURES / "stage_graph").diagnosis,
    )
    assert found.prediction is not None
    assert found.prediction.change == "cuda_graph"
    assert abs(found.prediction.error_share) < 0.025
    assert "graph-missing" in found.gone


def about(**changes: object) -> d.Diagnosis:
    return msgspec.structs.replace(full(), about=msgspec.structs.replace(full().about, **changes))


def test_two_targets_are_said_to_be_two() -> None:
    one, two = about(target="a.py:go"), about(target="b.py:go")
    assert (
        compare(one, two)
        .caveats[0]
        .startswith("The targets differ: a.py:go before, b.py:go after.")
    )
    assert not any("targets differ" in text for text in compare(one, one).caveats)


def test_arguments_that_differ_are_named() -> None:
    one = about(arguments={"n": "4", "prompt": "list of 3"})
    two = about(arguments={"n": "8", "prompt": "list of 3", "k": "1"})
    told = "The arguments differ: k is not given before, 1 after; n is 4 before, 8 after."
    assert told in compare(one, two).caveats
    assert not any("arguments differ" in text for text in compare(one, one).caveats)


def until(sign: str) -> d.Diagnosis:
    generation = full().generation
    assert generation is not None
    return msgspec.structs.replace(
        full(), generation=msgspec.structs.replace(generation, ttft_until=sign)
    )


def test_first_tokens_that_are_timed_to_other_ends_are_said_to_be() -> None:
    told = (
        "First tokens are timed to different ends: the end of the first forward before, the first "
        "yield after."
    )
    assert told in compare(until("forward"), until("yield")).caveats
    assert not any("First tokens" in text for text in compare(until("mark"), until("mark")).caveats)


def with_model(**changes: int | str) -> d.Diagnosis:
    known = {"name": "Qwen3", "parameters": 596_049_920, "parameter bytes": 1_192_099_840}
    return about(model=known | changes)


def test_other_models_are_said_to_be_and_hold_no_prediction() -> None:
    before = msgspec.structs.replace(with_model(), what_if=predicting("no_syncs", 1_050))
    after = with_step(
        with_model(name="Large", parameters=8_190_735_360, **{"parameter bytes": 16_381_470_720}),
        syncs=0.0,
    )
    found = compare(before, after)
    assert (
        "The models differ: Qwen3 (596,049,920 parameters, 1.19 GB) before, Large "
        "(8,190,735,360 parameters, 16.4 GB) after. The times are of different work."
    ) in found.caveats
    assert found.prediction is None
    assert found.why_no_prediction == "what the first one predicts is of another model"
    assert compare(before, with_step(with_model(), syncs=0.0)).prediction is not None


def test_another_class_of_as_many_parameters_is_named_and_may_be_predicted() -> None:
    before = msgspec.structs.replace(with_model(), what_if=predicting("no_syncs", 1_050))
    found = compare(before, with_step(with_model(name="Fused"), syncs=0.0))
    assert "The model's class differs: Qwen3 before, Fused after." in found.caveats
    assert found.prediction is not None


def test_other_parameter_bytes_are_another_model() -> None:
    found = compare(with_model(), with_model(**{"parameter bytes": 596_049_920}))
    assert found.caveats[0].startswith("The models differ: ")
    assert " after, of another model." in text(comparison_view(found), width=100)


def made(**changes: object) -> d.Diagnosis:
    return msgspec.structs.replace(
        full(), generation=msgspec.structs.replace(full().generation, **changes)
    )


def test_other_batches_and_token_counts_are_said_to_be_where_both_are_known() -> None:
    told = compare(made(batch=1, new_tokens=32), made(batch=32, new_tokens=6))
    assert "The batch differs: 1 before, 32 after." in told.caveats
    assert "The number of new tokens differs: 32 before, 6 after." in told.caveats
    unknown = compare(made(batch=1, new_tokens=32), made(batch=None, new_tokens=None))
    assert not any("differs" in text for text in unknown.caveats)
    before = msgspec.structs.replace(made(batch=1), what_if=predicting("no_syncs", 1_050))
    other = compare(before, with_step(made(batch=32), syncs=0.0))
    assert other.why_no_prediction == "what the first one predicts is of another batch"


def test_a_trace_that_does_not_say_what_it_ran_is_said_not_to() -> None:
    found = compare(with_model(), foreign_trace())
    assert (
        "server.json.gz (after) does not say which model it ran, its batch or how many tokens it "
        "made: whether both did the same work is not known."
    ) in found.caveats
    # Its device is not known, which is no other device.
    assert not any("device differs" in text for text in found.caveats)


def test_one_target_on_both_sides_is_taken_to_run_the_same() -> None:
    one = about(model={})
    assert not any("does not say" in text for text in compare(one, with_step(one)).caveats)


def test_a_cpu_is_another_device_than_a_gpu() -> None:
    found = compare(full(), cpu_run())
    assert "The device differs: NVIDIA H200 before, none, the CPU alone after." in found.caveats


def test_another_torch_and_another_processor_are_told() -> None:
    one = about(environment={"torch": "2.11.0", "cpu": "A"})
    found = compare(one, about(environment={"torch": "2.12.0", "cpu": "B"}))
    assert "The version of torch differs: 2.11.0 before, 2.12.0 after." in found.caveats
    assert "The host's processor differs: A before, B after." in found.caveats


def test_a_recording_and_its_copy_are_the_same(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "stage_graph", tmp_path / "copied")
    one = analyze_path(FIXTURES / "stage_graph").diagnosis
    found = compare(one, analyze_path(tmp_path / "copied").diagnosis)
    assert found.same_recording
    assert found.caveats == ["Both sides are the same recording: nothing is compared."]
    assert "both are the same recording: 4.72 ms a step" in text(comparison_view(found), width=100)
    other = compare(one, analyze_path(FIXTURES / "stage_compiled").diagnosis)
    assert not other.same_recording
