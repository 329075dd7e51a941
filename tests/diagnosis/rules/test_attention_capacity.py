from __future__ import annotations

from collections.abc import Callable

import pytest

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from tests.build import TraceBuilder
from tests.diagnosis.cases import (
    US,
    busy,
    case,
    judge,
    look_up,
    loop,
    recording,
    texts,
    the_finding,
)

CODE = "attention-capacity"
PROMPT = 16


def attend(b: TraceBuilder, query: int, keys: int) -> None:
    shape = (1, 8, keys, 64)
    with b.op("aten::scaled_dot_product_attention", shapes=((1, 8, query, 64), shape, shape)):
        b.launch("fmha_cutlassF", 5 * US)


def prefill(b: TraceBuilder) -> None:
    look_up(b, PROMPT)
    attend(b, PROMPT, PROMPT)


def attending(keys: Callable[[int], int], *, prompt: bool = True) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        look_up(b)
        for _ in range(2):
            attend(b, 1, keys(index))
        busy(b, kernels=3)

    return loop(body, prefill=prefill if prompt else None)


def test_a_cache_that_is_mostly_unused_is_found_with_its_bytes() -> None:
    what = case(attending(lambda _: 4096), recording())
    finding = the_finding(CODE, what)
    assert what.evidence.decode is not None
    # The prompt, and the decode steps up to the one shown.
    valid = PROMPT + what.evidence.decode.shown
    assert finding.summary.startswith(f"Attention reads 4,096 keys where {valid} are valid")
    told = texts(finding)
    assert "2 attention ops a step are called with 4,096 keys, the same in every step" in told
    # Two layers of 8 heads, keys and values of 64 numbers of 2 bytes.
    unused = (4096 - valid) * 2 * 8 * (64 + 64) * 2
    assert f"the unused part is {unused / 1e6:.1f} MB" in told
    assert "at 4 TB/s" in told


@pytest.mark.parametrize("capacity", [32, 47, 256])
def test_slack_that_is_small_or_less_than_the_content_is_normal(capacity: int) -> None:
    assert judge(CODE, case(attending(lambda _: capacity), recording())) == Clear()


def test_a_cache_that_grows_holds_no_unused_part() -> None:
    assert judge(CODE, case(attending(lambda i: 4096 + i), recording())) == Clear()


def test_without_shapes_or_the_prompt_it_cannot_tell() -> None:
    def without_shapes(b: TraceBuilder, index: int) -> None:
        del index
        busy(b)

    outcome = judge(CODE, case(loop(without_shapes), recording()))
    assert isinstance(outcome, CouldNotTell)
    assert "attention op" in outcome.reason
    outcome = judge(CODE, case(attending(lambda _: 4096, prompt=False), recording()))
    assert isinstance(outcome, CouldNotTell)
    assert "how many tokens" in outcome.reason
