"""A checkpoint that transformers saved loads, and computes what transformers computes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from decodeprof.reference.cache import GrowingKVCache
from decodeprof.reference.checkpoint import CheckpointError, load_model
from decodeprof.reference.model import TINY, Model, random_model
from tests.reference.qwen3 import as_transformers
from tests.reference.test_model import UNTIED


def logits(model: Model, tokens: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(tokens.shape[1]).expand_as(tokens)
    cache = GrowingKVCache(model.config.layers, device=torch.device("cpu"))
    out = model(tokens, positions, cache)
    assert isinstance(out, torch.Tensor)
    return out


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    as_transformers(random_model(TINY, seed=7)).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("config", [TINY, UNTIED], ids=["tied", "untied"])
@pytest.mark.parametrize("shard", ["5GB", "60KB"], ids=["one file", "shards"])
def test_logits_equal(tmp_path: Path, config: Any, shard: str) -> None:
    theirs = as_transformers(random_model(config, seed=7))
    theirs.save_pretrained(tmp_path, max_shard_size=shard)
    assert (tmp_path / "model.safetensors.index.json").exists() == (shard == "60KB")
    model = load_model(tmp_path)
    assert model.config == config
    tokens = torch.arange(20)[None]
    with torch.no_grad():
        expected = theirs(input_ids=tokens).logits
    torch.testing.assert_close(logits(model, tokens), expected, atol=1e-4, rtol=0)


def test_the_dtype_is_the_checkpoints_unless_named(tmp_path: Path) -> None:
    as_transformers(random_model(TINY)).to(torch.bfloat16).save_pretrained(tmp_path)
    assert load_model(tmp_path).embedding.dtype == torch.bfloat16
    assert load_model(tmp_path, dtype=torch.float32).embedding.dtype == torch.float32


def edit(directory: Path, **settings: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def refused(directory: Path, what: str, why: str = "") -> None:
    with pytest.raises(CheckpointError, match=re.escape(what)) as raised:
        load_model(directory)
    assert why in raised.value.why


def test_older_files_keep_the_rotation_beside_the_sizes(saved: Path) -> None:
    edit(saved, rope_parameters=None, rope_theta=5000.0, rope_scaling=None)
    assert load_model(saved).config.rope_theta == 5000.0


def test_a_missing_config(tmp_path: Path) -> None:
    refused(tmp_path, "config.json` is missing")


def test_a_config_that_is_no_json(saved: Path) -> None:
    (saved / "config.json").write_text("[1")
    refused(saved, "config.json` cannot be read")
    (saved / "config.json").write_text("[1]")
    refused(saved, "config.json` cannot be read", "no JSON object")


def test_another_architecture(saved: Path) -> None:
    edit(saved, architectures=["LlamaForCausalLM"])
    refused(saved, "another architecture", "LlamaForCausalLM")
    edit(saved, architectures=None)
    refused(saved, "another architecture", "none")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "rope_type is 'yarn'"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
    ],
)
def test_a_variant_that_is_not_computed(saved: Path, settings: dict[str, Any], why: str) -> None:
    edit(saved, **settings)
    refused(saved, "a variant", why)


@pytest.mark.parametrize("size", [None, -5, 0, True, "64", 6.5])
def test_missing_sizes(saved: Path, size: Any) -> None:
    edit(saved, head_dim=size)
    refused(saved, "lacks sizes", "head_dim")


@pytest.mark.parametrize(
    ("settings", "what", "why"),
    [
        ({"architectures": 5}, "another architecture", "5"),
        ({"architectures": [None]}, "another architecture", "None"),
        ({"rope_parameters": [1]}, "cannot be read", "rotation"),
        ({"rope_parameters": {"rope_theta": "x"}}, "cannot be read", "rope_theta is 'x'"),
        ({"rms_norm_eps": None}, "cannot be read", "rms_norm_eps is None"),
        ({"dtype": [1]}, "unknown dtype", ""),
    ],
)
def test_settings_of_another_kind(
    saved: Path, settings: dict[str, Any], what: str, why: str
) -> None:
    edit(saved, **settings)
    refused(saved, what, why)


@pytest.mark.parametrize("weight_map", [[], None, "x"])
def test_an_index_that_maps_nothing(saved: Path, weight_map: Any) -> None:
    index = saved / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    refused(saved, "cannot be read", "weight_map")
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": 5}}))
    refused(saved, "is missing")


def test_weights_that_are_not_there(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    refused(saved, "model.safetensors` is missing")


def test_a_damaged_file(saved: Path) -> None:
    whole = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(saved, "is damaged")


def test_a_missing_tensor_is_named(saved: Path) -> None:
    tensors = load_file(saved / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, saved / "model.safetensors")
    refused(saved, "lacks 1 of 24 tensors", "model.layers.1.mlp.up_proj.weight")


def test_a_surplus_tensor_is_named(saved: Path) -> None:
    tensors = load_file(saved / "model.safetensors")
    tensors["model.layers.2.mlp.up_proj.weight"] = torch.zeros(2)
    save_file(tensors, saved / "model.safetensors")
    refused(saved, "no place for", "model.layers.2.mlp.up_proj.weight")


def test_a_shape_that_contradicts_the_config(saved: Path) -> None:
    edit(saved, intermediate_size=96)
    refused(saved, "wrong shape", "by config.json it is (64, 96)")


def test_an_index_that_leads_out_of_the_directory(saved: Path) -> None:
    index = {"weight_map": {"model.norm.weight": "../model.safetensors"}}
    (saved / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(saved, "is missing")
