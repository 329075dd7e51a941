"""What needs no GPU of the counter comparison: reading ncu's output, matching, the engine."""

import json
from pathlib import Path

import pytest

from tests.build import TraceBuilder
from tests.golden import check_golden
from tests.gpu import ncu_decode_step as script
from tests.gpu.ncu_decode_step import (
    MARK,
    Kernel,
    Row,
    base,
    compare,
    counted,
    large,
    off,
    parse,
    report,
    show,
)
from tests.write_kineto import kineto

HEADER = '"ID","Kernel Name","Stream","dram__bytes.sum","dram__bytes_read.sum"'
OUTPUT = f"""==PROF== Connected to process 1 (/usr/bin/python)
==PROF== Profiling "nvjet": 0%....100% - 1 pass
a line that the program printed
{HEADER}
"","","","byte","byte"
"0","void at::native::<unnamed>::add_kernel<int>(int)","7","2,100,000","1,400,000"
"1","nvjet_sm90_tst_64x8","7","10000000.0","9990000"
"""


def test_ncus_raw_page_is_read():
    assert parse(OUTPUT) == [
        Kernel("void at::native::<unnamed>::add_kernel<int>(int)", 2_100_000, 1_400_000),
        Kernel("nvjet_sm90_tst_64x8", 10_000_000, 9_990_000),
    ]
    assert parse("==ERROR== ERR_NVGPUCTRPERM") == []


def test_other_units_than_bytes_are_refused():
    with pytest.raises(AssertionError, match="Mbyte"):
        parse(OUTPUT.replace('"byte","byte"', '"Mbyte","byte"'))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void at::native::(anonymous namespace)::add_kernel<8, float>(int, float*)", "add_kernel"),
        ("void at::native::<unnamed>::add_kernel<8>(int)", "add_kernel"),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"),
        (
            "void cublasLt::splitKreduce_kernel<32, 16>(cublasLt::Params<int>)",
            "splitKreduce_kernel",
        ),
    ],
)
def test_names_of_both_tools_meet_in_the_kernels_own(name, expected):
    assert base(name) == expected


def test_kernels_over_a_megabyte_that_differ_are_counted(capsys):
    ours = [
        Kernel("add_kernel", 2_100_000, 1_400_000),
        Kernel("nvjet", 12_000_000, 11_990_000),
        Kernel("small", 10, 5),
        Kernel("unknown", None, None),
    ]
    theirs = [
        Kernel("add_kernel", 2_100_000, 1_400_000),
        Kernel("nvjet", 10_000_000, 9_990_000),
        Kernel("small", 1_000, 900),
        Kernel("unknown", 3_000_000, 900),
    ]
    assert show(compare(ours, theirs), ours, theirs) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "+20.0%" in lines[2]
    assert lines[3].startswith("3 kernels counted, 2 over 1 MB, 1 of them off")
    assert "not counted" in lines[4]
    assert lines[-1] == "4 kernels in the step"


def test_the_marked_steps_kernels_are_taken_in_launch_order(tmp_path):
    program = TraceBuilder()
    program.launch("warm_up", 3_000)
    with program.annotation(MARK):
        program.launch("first", 3_000)
        program.set(1_000)
        program.launch("second", 3_000)
    program.launch("after", 3_000)
    path = tmp_path / "trace.json"
    path.write_bytes(kineto(program.build()))
    assert counted(path) == [Kernel("first", None, None), Kernel("second", None, None)]


def test_other_kernels_end_the_comparison():
    with pytest.raises(SystemExit, match="kernel 0"):
        compare([Kernel("a", 1, 1)], [Kernel("b", 1, 1)])
    with pytest.raises(SystemExit, match="1 kernels in the trace, 2"):
        compare([Kernel("a", 1, 1)], [Kernel("a", 1, 1)] * 2)


def test_the_engine_runs_and_may_be_stepped_again():
    torch = pytest.importorskip("torch")
    with torch.inference_mode():
        step = script.engine(
            device="cpu", layers=1, width=64, heads=4, kv_heads=2, inner=96, vocabulary=50,
            batch=2, capacity=16,
        )  # fmt: skip
        step()
        step()


ROOT = Path(__file__).parents[2]


def test_counted_bytes_are_those_that_the_counters_saw():
    rows = [Row(**row) for row in json.loads((ROOT / "fixtures/ncu/rows.json").read_text())]
    check_golden(ROOT / "reports/ncu.txt", report(rows).encode())
    assert len(large(rows)) == 17
    # Its own code and constants: 78 KB beside 1.2 MB.
    assert [row.name for row in off(rows)] == ["reduce_kernel"]
    assert max(abs(row.difference) for row in large(rows) if row not in off(rows)) < 0.005
