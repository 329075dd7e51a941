"""What is saved and loaded goes over the host, and tensors come back to where they were."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from decodeprof.lint import Predicted, predict


def told(found: Predicted) -> list[tuple[str, int]]:
    return [(sync.op, sync.in_prefill) for sync in found.syncs]


@pytest.mark.parametrize(
    ("write", "copies"),
    [
        (lambda x: torch.save(x, io.BytesIO()), 1),
        (lambda x: torch.serialization.save(x, io.BytesIO()), 1),
        (lambda x: torch.save(x, io.BytesIO(), _use_new_zipfile_serialization=False), 1),
        # Views share a storage, and empty ones hold nothing to copy.
        (lambda x: torch.save([x, x[1:], x + 1, x[:0].clone()], io.BytesIO()), 2),
        (lambda x: torch.save([x.cpu(), x], io.BytesIO()), 1),
        (lambda x: pickle.dumps(x), 1),
        (lambda x: pickle.dumps(nn.Parameter(x)), 1),
        # Pickled on its own each tensor brings its storage along.
        (lambda x: pickle.dumps([x, x[1:]]), 2),
    ],
)
def test_each_storage_is_copied_to_be_saved(write: Callable[[Tensor], Any], copies: int) -> None:
    with predict() as found:
        write(torch.ones(4, device="cuda") * 2)
    assert [each for each in told(found) if each[0] == "torch.save"] == [("torch.save", copies)]
    (copied,) = {copy.direction for copy in found.copies}
    assert copied == "device to host"


def test_a_tensor_of_the_host_is_saved_without_a_wait() -> None:
    with predict() as found:
        torch.save(torch.ones(4), io.BytesIO())
        copy.deepcopy(torch.ones(4, device="cuda"))
    assert found.count == 0


def test_a_storage_is_read_with_one_wait() -> None:
    with predict() as found:
        bytes_ = torch.full((4,), 7, dtype=torch.uint8, device="cuda").untyped_storage().cpu()
        assert bytes_.tolist() == [7, 7, 7, 7]
    assert told(found) == [("aten::copy_", 1)]


def test_what_is_pickled_comes_back_to_the_gpu() -> None:
    with predict() as found:
        x = torch.ones(4, device="cuda") * 2
        back = pickle.loads(pickle.dumps(x))
        assert back.is_cuda
        assert torch.equal(back, x)
    assert ("torch.load", 1) in told(found)


def test_a_checkpoint_is_loaded_onto_the_gpu(tmp_path: Any) -> None:
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(3)}, path)
    with predict():
        assert torch.load(path, map_location="cuda")["weight"].is_cuda
        assert not torch.load(path, map_location="cpu")["weight"].is_cuda


def test_a_checkpoint_goes_back_to_where_it_was_saved(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.pt"
    with monkeypatch.context() as patched:
        # As it is written on a machine with a GPU.
        patched.setattr(torch.serialization, "location_tag", lambda _storage: "cuda:0")
        torch.save({"weight": torch.ones(3)}, path)
    with predict():
        assert torch.load(path)["weight"].is_cuda
        assert not torch.load(path, map_location={"cuda:0": "cpu"})["weight"].is_cuda
        assert not torch.load(path, map_location=lambda storage, _: storage)["weight"].is_cuda
        assert torch.load(path, map_location=torch.device("cuda"))["weight"].sum().item() == 3


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_module_of_torchscript_is_loaded_onto_the_gpu(tmp_path: Any) -> None:
    path = str(tmp_path / "module.pt")
    torch.jit.script(nn.Linear(2, 2)).save(path)
    with predict() as found:
        module = torch.jit.load(path, map_location="cuda")
        assert module(torch.ones(1, 2, device="cuda")).is_cuda
        assert not torch.jit.load(path)(torch.ones(1, 2)).is_cuda
    assert found.count == 0
