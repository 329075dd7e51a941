"""Prediction against what a GPU did, operation by operation."""

import copy
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from decodeprof.lint import predict
from decodeprof.lint.pretend import pretended

TRUTH = json.loads(Path(__file__).with_name("h200_syncs.json").read_bytes())
ROWS = [(row["code"], row["syncs"]) for row in TRUTH["rows"]]
LARGEST_WRONG_SHARE = 0.02


def names() -> dict[str, Any]:
    """What the operations in the truth are given."""
    device = "cuda"
    torch.manual_seed(0)  # some of the code needs more values below 0 than above
    x = torch.randn(64, 64, device=device)
    return {
        "torch": torch,
        "F": F,
        "x": x,
        "i": torch.randint(0, 5, (64,), device=device),
        "m": x > 0,
        "s": x.sum(),
        "p": torch.softmax(x, -1),
        "h": torch.ones(64, 64),
        "hp": torch.ones(64, 64).pin_memory(),
        "op": torch.empty(64, 64, pin_memory=True),
        "one": torch.ones((), device=device),
        "c1": torch.tensor([0, 1]),
        "two": torch.full((64,), 2, device=device),
        "ev": torch.cuda.Event(),
        "dev": device,
    }


class Counting:
    """A sink that counts."""

    def __init__(self) -> None:
        self.waits = 0

    def waited(self, _op: str, wait: Any) -> None:
        self.waits += wait.count

    def copied(self, _op: str, _copy: Any) -> None:
        pass


def predicted(code: str, under: Callable[[], AbstractContextManager[Any]] = nullcontext) -> int:
    sink = Counting()
    with pretended(sink), under():
        given = names()
        sink.waits = 0
        eval(code, given)
        return sink.waits


# Under inference mode torch leaves it to the mode to take operators apart.
@pytest.mark.parametrize("under", [nullcontext, torch.no_grad, torch.inference_mode])
def test_operations_agree_with_the_gpu(under: Callable[[], AbstractContextManager[Any]]) -> None:
    told = {code: predicted(code, under) for code, _ in ROWS}
    missed = [code for code, syncs in ROWS if syncs and not told[code]]
    false = [code for code, syncs in ROWS if told[code] and not syncs]
    assert len(ROWS) == 67
    assert len(missed) <= LARGEST_WRONG_SHARE * len(ROWS), missed
    assert len(false) <= LARGEST_WRONG_SHARE * len(ROWS), false
    # How often each waits agrees as well.
    assert {code: told[code] for code, _ in ROWS} == dict(ROWS)


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        ("x.view(-1)[0].fill_(5.0)", 0),
        ("x[m]", 1),
        ("x.__setitem__(m, x[~m][: int(m.sum())])", 3),
        ("torch.as_tensor([1, 2], device=dev)", 1),
        ("torch.tensor([one, one])", 2),
        ("torch.tensor([], device=dev)", 0),
        ("x.type_as(h)", 1),
        ("h.to(x)", 1),
        ("h.cuda(non_blocking=True)", 0),
        ("x.to(torch.float64)", 0),
        ("x.to(dev)", 0),
        ("torch.zeros_like(x, device='cpu').copy_(x)", 1),
        ("torch.equal(x, x.clone())", 1),
        ("torch.argwhere(x)", 1),
        ("torch.unique(i)", 1),
        ("x.any()", 0),
        ("one in i", 1),
        ("torch.quantile(x, 0.5)", 0),
        ("F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)", 0),
        ("torch.nn.Linear(64, 64, device=dev)(x)", 0),
        ("torch.nn.Linear(64, 64).to(dev)(x)", 2),
        ("x.repeat_interleave(two, 0)", 2),
        ("torch.linspace(0, one, 5, device=dev)", 1),
        ("torch.linspace(one, one, 5, device=dev)", 2),
        ("torch.cond(one > 0, lambda y: y + 1, lambda y: y - 1, (x,))", 1),
        ("torch.cond(one > 0, lambda y: y * int(y[0, 0]), lambda y: y - 1, (x,))", 2),
        ("torch.linalg.cholesky(x @ x.T + 64 * torch.eye(64, device=dev))", 1),
        ("torch.cuda.current_stream().synchronize()", 1),
        ("torch.asarray([1, 2], device=dev)", 1),
        ("torch.asarray(h, device=dev)", 1),
        ("torch.asarray([one, one])", 2),
        ("torch.as_tensor([one, one])", 2),
        ("torch.asarray(x)", 0),
        ("torch.asarray(h)", 0),
        ("x.share_memory_()", 0),
        ("h.sum().item()", 0),
        ("h[h > 0]", 0),
    ],
)
def test_the_rule_holds_for_other_operations(code: str, waits: int) -> None:
    assert predicted(code) == waits


# Inside of these torch makes a tensor where its arguments really are.
@pytest.mark.parametrize(
    "code",
    [
        "F.one_hot(i, 8)",
        "torch.nn.utils.rnn.pad_sequence([x[0], x[1, :5]])",
        "torch.vander(x[0, :4])",
        "torch.ops.aten._scaled_dot_product_attention_math(x, x, x, None, 0.0, True)[0]",
        "torch.quantile(x, 0.5)",
        "copy.deepcopy(x)",
        "copy.deepcopy(torch.nn.Linear(2, 2, device=dev)).weight",
    ],
)
@pytest.mark.parametrize("under", [torch.no_grad, torch.inference_mode])
def test_what_torch_makes_inside_is_on_the_device(
    code: str, under: Callable[[], AbstractContextManager[Any]]
) -> None:
    sink = Counting()
    refused: list[str] = []
    with pretended(sink) as mode, under():
        given = {**names(), "copy": copy}
        sink.waits = 0
        mode.on_refused = lambda op, _why: refused.append(op)
        made = eval(code, given)
        assert made.is_cuda
        assert (made + given["one"]).is_cuda
    assert (sink.waits, refused) == (0, [])


@pytest.mark.parametrize(
    "code",
    [
        "torch.ones(64)",
        "torch.arange(64)",
        "torch.tensor([1.0] * 64)",
        "torch.normal(0.0, 1.0, (64,))",
        "F.one_hot(torch.arange(2), 64)[0]",
    ],
)
def test_what_the_program_makes_stays_on_the_host(code: str) -> None:
    refused: list[str] = []
    with pretended(Counting()) as mode:
        given = names()
        mode.on_refused = lambda op, _why: refused.append(op)
        made = eval(code, given) * 1
        assert not made.is_cuda
        given["x"] + made
    assert refused == ["aten::add"]


def test_a_sync_is_named_by_its_line() -> None:
    with predict(script_folder=str(Path(__file__).parent)) as found:
        token = torch.ones(3, device="cuda").argmax()
        int(token)  # this line
    (sync,) = found.syncs
    assert sync.place.file == "test_truth.py"
    assert sync.place.code == "int(token)  # this line"
    assert sync.op == "aten::_local_scalar_dense"
    assert found.count == sync.in_prefill == 1


@pytest.mark.parametrize("under", [nullcontext, torch.inference_mode])
def test_pageable_copies_are_told_and_pinned_ones_are_not(
    under: Callable[[], AbstractContextManager[Any]],
) -> None:
    with predict() as found, under():
        torch.ones(8).to("cuda", non_blocking=True)
        torch.ones(4).pin_memory().to("cuda", non_blocking=True)
        torch.ones(2, device="cuda").cpu()
    told = [(copy.direction, copy.bytes_per_copy, copy.non_blocking) for copy in found.copies]
    assert sorted(told) == [("device to host", 8, False), ("host to device", 32, True)]
