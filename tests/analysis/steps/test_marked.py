"""Steps that somebody named: marks, servers' annotations, forwards, replays, yields, loops."""

import pytest

from decodeprof import mark
from decodeprof.analysis.steps.found import Steps
from tests.build import TraceBuilder
from tests.reading import steps_of, trace_of
from tests.scenarios import forward, layer, take_token

US = 1_000


def found(b: TraceBuilder, *, new_tokens: int | None = None) -> Steps:
    return steps_of(trace_of(b.build()), new_tokens=new_tokens)


def counts(steps: Steps) -> list[int]:
    """Activities of each step."""
    rows = steps.activity_step.tolist()
    return [rows.count(step) for step in range(steps.count)]


def one_step(b: TraceBuilder, *, query: int = 1) -> None:
    forward(b, query=query, layers=2, kernel_ns=2 * US)
    take_token(b)


def test_user_marks_are_exact() -> None:
    b = TraceBuilder()
    one_step(b)  # warm-up, outside every mark
    starts, ends = [], []
    for phase in ("prefill", "decode", "decode", "decode"):
        b.work(30 * US)
        starts.append(b.now)
        with b.annotation(mark.label(mark.STEP, phase=phase)):
            one_step(b, query=16 if phase == "prefill" else 1)
        ends.append(b.now)
        b.launch("between the steps", 1 * US)
    steps = found(b)
    assert (steps.method, steps.phases) == ("marks", ("prefill", "decode", "decode", "decode"))
    assert steps.host_start_ns.tolist() == starts
    assert steps.host_end_ns.tolist() == ends
    assert steps.query_lengths == (16, 1, 1, 1)
    assert counts(steps) == [12, 12, 12, 12]
    assert "16 device activities launched outside all steps" in steps.left_out


def test_a_mark_within_a_mark_is_part_of_it() -> None:
    b = TraceBuilder()
    for _ in range(3):
        with b.annotation(mark.label(mark.STEP, phase="decode")):
            one_step(b)
            with b.annotation(mark.label(mark.STEP, phase="decode")):
                one_step(b)
    assert counts(found(b)) == [24, 24, 24]


def test_a_mark_around_all_others_is_the_call_and_no_step() -> None:
    b = TraceBuilder()
    with (
        b.annotation(mark.label(mark.STEP, phase="decode")),
        b.annotation(mark.label(mark.STEP, phase="prefill")),
    ):
        b.launch("before the first step", 1 * US)
        for phase in ("prefill", "decode", "decode"):
            with b.annotation(mark.label(mark.STEP, phase=phase)):
                one_step(b)
    steps = found(b)
    assert steps.phases == ("prefill", "decode", "decode")
    assert counts(steps) == [12, 12, 12]
    assert "1 device activity launched outside all steps" in steps.left_out


def test_an_engines_own_annotation_comes_before_one_around_all_that_prepares_it() -> None:
    b = TraceBuilder()
    with b.annotation("execute_15360_context_15(sq1sk1sqsq1sqsk1)_generation_0(sq0sk0sqsq0sqsk0)"):
        b.launch("of the step before: its own wait follows", 1 * US)
        b.work(9_000 * US)
        with b.annotation("step[EXTEND bs=15 toks=15360]"):
            layer(b)
            inside = b.now
        b.launch("sampling, after the step", 1 * US)
    steps = found(b)
    assert (steps.phases, steps.single, counts(steps)) == (("prefill",), True, [4])
    assert int(steps.host_end_ns[0]) == inside
    assert int(steps.window_ns[0]) < 9_000 * US
    assert "2 device activities launched outside all steps" in steps.left_out


def test_one_mark_is_one_step_and_not_steady() -> None:
    b = TraceBuilder()
    with b.annotation(mark.label(mark.STEP, phase="decode")):
        one_step(b)
    steps = found(b)
    assert (steps.method, steps.single, steps.phases) == ("annotation", True, ("decode",))
    assert not steps.steady.any()
    assert steps.reasons == ("one step alone is not a steady state",)


@pytest.mark.parametrize(
    ("noted", "method"), [(1, "annotation"), (4, "forwards")], ids=["a step", "a call"]
)
def test_one_mark_around_several_forwards_is_the_call_and_no_step(noted: int, method: str) -> None:
    b = TraceBuilder()
    with b.annotation(mark.label(mark.STEP, phase="decode")):
        for _ in range(noted):
            with b.annotation(mark.label(mark.FORWARD, m=0, q=1)):
                forward(b, query=1, layers=2, kernel_ns=2 * US)
            take_token(b)
    steps = found(b)
    assert (steps.method, steps.count) == (method, noted)


@pytest.mark.parametrize(
    ("names", "phases"),
    [
        (
            [
                "execute_context_1(16)_generation_0(0)",
                "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8209sqsq16sqsk8209)",
                "execute_context_2(9)_generation_3(3)",
            ],
            ("prefill", "decode", "other"),
        ),
        (
            ["step[EXTEND bs=1 toks=15360]", "step[DECODE bs=16]", "step[MIXED bs=3]"],
            ("prefill", "decode", "other"),
        ),
    ],
    ids=["vLLM", "SGLang"],
)
def test_servers_say_what_a_step_is(names: list[str], phases: tuple[str, ...]) -> None:
    b = TraceBuilder()
    for name in names:
        with b.annotation(name):
            layer(b)
        b.launch("after the range, before the next: still of this step", 1 * US)
    steps = found(b)
    assert (steps.method, steps.phases) == ("marks", phases)
    assert "server" in steps.text
    # The last one ends with its own range.
    assert counts(steps) == [5, 5, 4]


@pytest.mark.parametrize(
    "name",
    ["step[DECODE", "execute_context_1", "a step[DECODE bs=1]", "ProfilerStep#", "ProfilerStep#x"],
)
def test_near_misses_are_no_marks(name: str) -> None:
    b = TraceBuilder()
    for _ in range(3):
        with b.annotation(name):
            layer(b)
    assert found(b).method != "marks"


def test_profiler_steps_take_their_phase_from_the_query_length() -> None:
    b = TraceBuilder()
    for index in range(4):
        with b.annotation(f"ProfilerStep#{index + 5}"):
            one_step(b, query=1 if index else 559)
    steps = found(b)
    assert steps.phases == ("prefill", "decode", "decode", "decode")
    assert steps.query_lengths == (559, 1, 1, 1)
    assert "ProfilerStep#" in steps.text


def test_profiler_steps_without_shapes_are_neither() -> None:
    b = TraceBuilder()
    for index in range(3):
        with b.annotation(f"ProfilerStep#{index}"):
            layer(b)
    steps = found(b)
    assert steps.phases == ("other",) * 3
    assert set(steps.reasons) == {"neither prefill nor decode is known"}


def test_profiler_steps_of_training_are_no_decode_steps_but_user_marks_are_believed() -> None:
    for name, method in (("ProfilerStep#1", "none"), ("decodeprof.step phase=decode", "marks")):
        b = TraceBuilder()
        for _ in range(3):
            with b.annotation(name), b.op("autograd::engine::evaluate_function: MmBackward0"):
                one_step(b)
        assert found(b).method == method


def test_forwards_are_the_steps_and_sampling_belongs_to_them() -> None:
    b = TraceBuilder()
    b.launch("before the call", 1 * US)
    b.work(40 * US)
    starts, call = [], b.now
    with b.annotation(mark.CALL):
        for index in range(5):
            b.work(10 * US)
            starts.append(b.now)
            query = 1 if index else 16
            with b.annotation(mark.label(mark.FORWARD, m=0, q=query, b=1)):
                forward(b, query=query, layers=2, kernel_ns=2 * US)
            take_token(b)
        end = b.now
    b.sync("cudaDeviceSynchronize")  # the recorder's own
    steps = found(b)
    assert steps.method == "forwards"
    assert steps.phases == ("prefill", *["decode"] * 4)
    assert steps.query_lengths == (16, 1, 1, 1, 1)
    # The prefill begins with the call: what precedes its forward belongs to the first token.
    assert steps.host_start_ns.tolist() == [call, *starts[1:]]
    assert int(steps.host_end_ns[-1] - steps.host_start_ns[-1]) == end - starts[-1]
    assert counts(steps) == [12] * 5
    # The closing synchronisation is no part of the last step.
    assert steps.call_step.tolist()[-1] == -1


def test_a_forward_within_a_forward_is_part_of_it() -> None:
    b = TraceBuilder()
    for _ in range(3):
        with b.annotation(mark.label(mark.FORWARD, m=0, q=1)):
            for _ in range(4):
                with b.annotation(mark.label(mark.FORWARD, m=1, q=1)):
                    layer(b)
    # Even where the inner module's calls are as many as the tokens.
    assert found(b, new_tokens=12).count == 3


def test_modules_that_are_called_one_by_one() -> None:
    """An embedding, 3 layers and a head, without a module around them: 4 tokens."""
    b = TraceBuilder()
    for token in range(4):
        query = 1 if token else 7
        with b.annotation(mark.label(mark.FORWARD, m=0, q=query)), b.op("aten::embedding"):
            b.launch("embed", 1 * US)
        for _ in range(3):
            with b.annotation(mark.label(mark.FORWARD, m=1, q=query)):
                layer(b)
        with b.annotation(mark.label(mark.FORWARD, m=2, q=query)):
            b.launch("head", 1 * US)
        take_token(b)
    steps = found(b, new_tokens=4)
    assert steps.phases == ("prefill", "decode", "decode", "decode")
    assert counts(steps) == [16] * 4
    assert steps.host_start_ns[0] == 0
    # Not knowing the number of tokens, the instance that is called least often is the boundary.
    assert found(b).count == 4


def test_two_graphs_a_token() -> None:
    b = TraceBuilder()
    with b.annotation(mark.label(mark.FORWARD, m=0, q=9)):
        forward(b, query=9, layers=2, kernel_ns=2 * US)
    for _ in range(4):
        for graph in (0, 1):
            with b.annotation(mark.label(mark.REPLAY, g=graph)):
                b.graph([("n", 1 * US)] * 60)
        take_token(b)
    steps = found(b, new_tokens=5)
    assert steps.phases == ("prefill", *["decode"] * 4)
    assert counts(steps) == [10, 122, 122, 122, 122]
    assert steps.query_lengths[0] == 9


def test_replays_alone_are_all_decode_steps() -> None:
    b = TraceBuilder()
    for _ in range(4):
        with b.annotation(mark.label(mark.REPLAY, g=0)):
            b.graph([("n", 1 * US)] * 20)
    assert found(b).phases == ("decode",) * 4


def test_a_second_prompt_is_a_prefill_again() -> None:
    b = TraceBuilder()
    for query in (16, 1, 1, 1, 12, 1, 1, 1):
        with b.annotation(mark.label(mark.FORWARD, m=0, q=query)):
            layer(b)
    assert found(b).phases == (
        "prefill", "decode", "decode", "decode", "prefill", "decode", "decode", "decode",
    )  # fmt: skip


def test_a_loop_without_a_cache_decodes_with_a_growing_query() -> None:
    b = TraceBuilder()
    for query in range(16, 21):
        with b.annotation(mark.label(mark.FORWARD, m=0, q=query)):
            layer(b)
    steps = found(b)
    assert steps.phases == ("prefill", *["decode"] * 4)
    assert steps.query_lengths == (16, 17, 18, 19, 20)


def test_yields_are_the_steps_where_no_module_is_called() -> None:
    b = TraceBuilder()
    for _ in range(4):
        with b.annotation(mark.YIELD):
            one_step(b)
    steps = found(b)
    assert (steps.method, steps.phases) == ("yields", ("prefill", "decode", "decode", "decode"))


def test_forwards_are_preferred_to_yields_in_bursts() -> None:
    b = TraceBuilder()
    for _ in range(2):
        with b.annotation(mark.YIELD):
            for _ in range(4):
                with b.annotation(mark.label(mark.FORWARD, m=0, q=1)):
                    layer(b)
        for _ in range(3):
            with b.annotation(mark.YIELD):
                b.work(100)
    steps = found(b)
    assert (steps.method, steps.count) == ("forwards", 8)


def test_the_iterations_of_a_loop() -> None:
    b = TraceBuilder()
    for _ in range(4):
        with b.annotation(mark.LOOP):
            b.launch("a", 1 * US)
        b.launch("b", 1 * US)
    steps = found(b)
    assert (steps.method, steps.phases) == ("loop", ("decode",) * 4)
    # Of the launches, the last belongs to the last iteration as well.
    assert counts(steps) == [2, 2, 2, 2]


def test_one_iteration_is_no_loop() -> None:
    b = TraceBuilder()
    with b.annotation(mark.LOOP):
        b.launch("a", 1 * US)
    assert found(b).method == "none"


def test_work_of_other_threads_belongs_to_the_step_of_its_time() -> None:
    b = TraceBuilder()
    for _ in range(3):
        with b.annotation(mark.label(mark.FORWARD, m=0, q=1)):
            layer(b)
    b.on("second")
    b.work(5 * US)
    b.launch("from another thread", 1 * US, stream=20)
    assert counts(found(b))[0] == 5
