from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, case, judge, loop, recording, texts, the_finding

CODE = "small-kernels"
NORM = ("aten::pow", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul")


def unfused(b: TraceBuilder, index: int) -> None:
    del index
    for _ in range(10):
        for op in NORM:
            with b.op(op, shapes=((1, 64),)):
                name = "reduce_kernel<MeanOps>" if op == "aten::mean" else "elementwise_kernel"
                b.launch(name, 2 * US)
        with b.op("aten::mm", shapes=((1, 64), (64, 64))):
            b.launch("nvjet_sm90_tst", 4 * US)


def products_only(b: TraceBuilder, index: int) -> None:
    del index
    for _ in range(60):
        with b.op("aten::mm", shapes=((1, 64), (64, 64))):
            b.launch("nvjet_sm90_tst", 4 * US)


def one_addition(b: TraceBuilder, index: int) -> None:
    products_only(b, index)
    for _ in range(2):
        with b.op("aten::add", shapes=((1, 64), (1, 64))):
            b.launch("elementwise_kernel", 2 * US)


def test_chains_are_named_by_their_ops_with_what_would_be_left() -> None:
    what = case(loop(unfused), recording())
    finding = the_finding(CODE, what)
    assert finding.summary.startswith("60 kernels, copies and sets a step could be 20;")
    told = texts(finding)
    assert "10 × a step 5 kernels in a row" in told
    assert "pow, mean, add, rsqrt, mul" in told
    assert what.predicted.outcomes is not None
    assert what.predicted.outcomes.fusion is not None
    assert finding.saving_ns_per_step == what.predicted.outcomes.fusion.saving_ns


def test_matrix_products_alone_are_no_chain() -> None:
    assert judge(CODE, case(loop(products_only), recording())) == Clear()


def test_a_chain_that_takes_little_of_the_step_is_not_worth_fusing() -> None:
    assert judge(CODE, case(loop(one_addition), recording())) == Clear()


def test_without_api_calls_it_cannot_tell() -> None:
    assert isinstance(judge(CODE, case(loop(unfused), without=("calls",))), CouldNotTell)
