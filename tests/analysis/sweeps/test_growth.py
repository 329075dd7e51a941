"""What grows with the rows of a step, counted by hand on traces whose truth is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from decodeprof.analysis.sweeps.growth import Growth, Rates, growth, with_rows
from decodeprof.analysis.traffic import kernel_traffic
from decodeprof.model.trace import ActivityKind
from tests.analysis.traffic.program import FLOAT, Program, T, detail

NOTHING_NS = 700
"""The shortest kernel of each step here."""
# A byte an ns, 100 FLOPs an ns, an element in 4 ns where each needs an address.
RATES = Rates(1e9, 1e11, sm_count=2, strided_elements_per_s=0.25e9)
DENSE = "vectorized_elementwise_kernel<4, add>"
STRIDED = "void at::native::elementwise_kernel<128, 4, copy>"


def grown(program: Program, *, rows: int = 1) -> Growth:
    program.run("aten::add", T((1, 1)), T((1, 1)), 1, kernel=DENSE, ns=NOTHING_NS)
    trace = program.trace()
    activities = np.arange(len(trace.device), dtype=np.int64)
    return growth(trace, kernel_traffic(trace), activities, rows=rows)


def of(name: str, *arguments: object, kernel: str = "k", ns: int = 3_000, rows: int = 1) -> Growth:
    program = Program()
    program.run(name, *arguments, kernel=kernel, ns=ns)
    return grown(program, rows=rows)


def test_of_a_product_the_weight_stays() -> None:
    found = of("aten::mm", T((1, 64)), T((64, 256), strides=(1, 64)), kernel="nvjet")
    weight, row = 64 * 256 * 2, (64 + 256) * 2
    assert (found.fixed_bytes[0], found.row_bytes[0]) == (weight, row)
    assert (found.fixed_flops[0], found.row_flops[0]) == (0, 2 * 64 * 256)
    # 32,768 B take longer than the recorded 3 µs at a byte an ns: what it lasts at the least.
    assert found.at(1, RATES)[0] == NOTHING_NS + weight + row
    assert found.at(100, RATES)[0] == NOTHING_NS + weight + 100 * row
    fast_memory = Rates(1e15, 1e11, sm_count=2)
    assert found.at(1, fast_memory)[0] == 3_000
    assert found.at(100, fast_memory)[0] == NOTHING_NS + 100 * 2 * 64 * 256 // 100


def test_a_small_kernel_keeps_its_duration_until_the_bytes_take_longer() -> None:
    # Each row reads 2 × 2 kB and writes 2 kB; the norm's weight, 2 kB, is read once.
    found = of("aten::mul", T((1024,)), T((1, 1, 1024)), kernel=DENSE)
    assert (found.fixed_bytes[0], found.row_bytes[0]) == (2048, 4096)
    slow = [int(found.at(rows, Rates(1e12, 1e15, 132))[0]) for rows in (1, 64, 512, 1024, 4096)]
    # 4,096 B at 1,000 B an ns.
    assert slow == [3_000, 3_000, 3_000, 700 + 2 + 4194, 700 + 2 + 16777]


def test_a_batched_product_grows_as_a_whole() -> None:
    found = of("aten::bmm", T((8, 1, 128)), T((8, 128, 512)), kernel="gemv", ns=1_000)
    once = 2 * 8 * (128 + 128 * 512 + 512)
    assert (found.fixed_bytes[0], found.row_bytes[0]) == (0, once)
    assert found.row_flops[0] == 2 * 8 * 128 * 512


def test_an_expanded_copy_is_bound_by_its_elements() -> None:
    target, source = T((1, 2, 2, 16, 8)), T((1, 2, 2, 16, 8), strides=(256, 128, 0, 8, 1))
    found = of("aten::copy_", target, source, kernel=STRIDED)
    assert found.row_elements[0] == 512
    assert found.at(100, RATES)[0] == NOTHING_NS + 100 * 512 * 4
    # The same kernel over dense memory is bound by its bytes.
    dense = of("aten::copy_", target, target, kernel=DENSE)
    assert dense.at(100, RATES)[0] == NOTHING_NS + 100 * 2 * 512 * 2


def test_without_a_measured_rate_of_elements_the_typical_one_of_an_sm_is_taken() -> None:
    assert Rates(1e9, 1e11, sm_count=100).strided_per_ns == pytest.approx(325)
    assert RATES.strided_per_ns == pytest.approx(0.25)


def test_blocks_come_in_waves_when_the_device_is_full() -> None:
    # 8 blocks of 128 threads, and 16 fit on each of two SMs; each takes 512 elements of a row.
    found = of("aten::mean", T((1, 4096), FLOAT), [T((1,))], kernel="reduce_kernel<512, 1>")
    fast = Rates(1e15, 1e15, sm_count=2)
    assert found.row_elements[0] == 4096
    alone = 3_000 - NOTHING_NS
    # 4 rows are 32 blocks, all at once; 8 are two waves, and 40 are ten.
    durations = [int(found.at(rows, fast)[0]) for rows in (1, 4, 8, 40)]
    assert durations == [3_000, 3_000, NOTHING_NS + 2 * alone, NOTHING_NS + 10 * alone]


def test_what_is_not_known_to_grow_stays_and_is_told() -> None:
    program = Program()
    program.run("my_library::op", T((1, 64)), kernel="custom", ns=1_000)
    program.run("aten::relu", T((1, 64)), kernel=DENSE, ns=2_300)
    found = grown(program)
    assert found.known.tolist() == [False, True, True]
    assert found.unknown_share == pytest.approx(0.25)
    assert found.at(10**6, RATES)[0] == 1_000


def test_helpers_and_sets_stay() -> None:
    program = Program()
    with program.op("aten::mm", T((1, 64)), T((64, 256), strides=(1, 64))):
        program.launch("memset", 900, kind=ActivityKind.SET, size=4)
        program.launch("nvjet_splitK", 5_000)
        program.launch("splitKreduce_kernel", 1_500)
    found = grown(program)
    assert found.known.all()
    later = found.at(1_000, RATES)
    assert (int(later[0]), int(later[2])) == (900, 1_500)
    assert later[1] > 100_000


def test_concatenated_rows_grow() -> None:
    found = of("aten::cat", [T((1, 8)), T((1, 8))], -1, kernel="CatArrayBatchedCopy<OpaqueType<2u>")
    assert (found.row_elements[0], found.row_bytes[0]) == (16, 64)


def test_a_step_of_several_rows_grows_from_there() -> None:
    one = of("aten::mm", T((1, 64)), T((64, 256), strides=(1, 64)), kernel="nvjet")
    four = of("aten::mm", T((4, 64)), T((64, 256), strides=(1, 64)), kernel="nvjet", rows=4)
    assert (one.fixed_bytes[0], one.row_bytes[0]) == (four.fixed_bytes[0], four.row_bytes[0])
    assert one.row_flops[0] == four.row_flops[0]


def test_no_kernel_becomes_shorter() -> None:
    program = Program()
    program.run("aten::mm", T((1, 64)), T((64, 256), strides=(1, 64)), kernel="nvjet", ns=50_000)
    program.run("aten::copy_", T((1, 8, 4)), T((1, 8, 4), strides=(4, 0, 1)), kernel=STRIDED)
    program.run("aten::mean", T((1, 4096), FLOAT), [T((1,))], kernel="reduce_kernel<512, 1>")
    found = grown(program)
    before = found.duration_ns
    for rows in (1, 2, 3, 17, 1_000, 10**6):
        after = found.at(rows, RATES)
        assert (after >= before).all()
        before = after


def test_only_tensors_that_begin_with_the_rows_grow() -> None:
    called = detail(T((1, 8)), T((64, 1)), T((1,)), 3, [T((1, 2)), T((5, 2))])
    wanted = with_rows(called, rows=1, wanted=7)
    assert wanted.shapes == ((7, 8), (64, 1), (7,), (), None)
    assert wanted.lists[4] == ((7, 2), (5, 2))
    # Older traces record no strides, and others may be damaged.
    bare = dataclasses.replace(called, strides=())
    assert with_rows(bare, rows=1, wanted=7).shapes == wanted.shapes
    odd = dataclasses.replace(called, strides=((8,), (1, 1), ()))
    assert with_rows(odd, rows=1, wanted=7).strides == ((8,), (1, 1), ())
    # The rows of an expanded tensor are new storage each.
    expanded = detail(T((1, 4, 8), strides=(0, 0, 1)))
    assert with_rows(expanded, rows=1, wanted=7).strides == ((8, 0, 1),)
