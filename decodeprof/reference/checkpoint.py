"""A real checkpoint: how do weights get from a Hugging Face directory into the model?

`config.json` gives the shape, `model.safetensors` (or the shards that
`model.safetensors.index.json` lists) the tensors. Each is copied straight into the weights made on
the device, one at a time: the 8B shape never stands twice in memory. What a step costs does not
depend on the values, so everything measured on random weights holds for these.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from decodeprof.reference.model import Model, ModelConfig

ARCHITECTURE = "Qwen3ForCausalLM"
CONFIG_FILE = "config.json"
INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

_SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}
_LAYER_NAMES = {
    "attention_norm": "input_layernorm",
    "attention.q": "self_attn.q_proj",
    "attention.k": "self_attn.k_proj",
    "attention.v": "self_attn.v_proj",
    "attention.o": "self_attn.o_proj",
    "attention.q_norm": "self_attn.q_norm",
    "attention.k_norm": "self_attn.k_norm",
    "feed_forward_norm": "post_attention_layernorm",
    "feed_forward.gate": "mlp.gate_proj",
    "feed_forward.up": "mlp.up_proj",
    "feed_forward.down": "mlp.down_proj",
}


class CheckpointError(ValueError):
    """A checkpoint cannot be loaded.

    Args:
        what: what could not be done.
        why: the cause; empty when `what` says it all.
        hint: what to do next, if anything.
    """

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        super().__init__(": ".join(part for part in (what, why, hint) if part))
        self.what = what
        self.why = why
        self.hint = hint


def load_model(
    directory: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
) -> Model:
    """Load a Qwen3 checkpoint from a local directory.

    Args:
        directory: as `save_pretrained` writes it or `huggingface-cli download` leaves it.
        device: to load to.
        dtype: to convert to; the checkpoint's own when absent.

    Raises:
        CheckpointError: a file or tensor is missing or damaged, or it is another architecture.
    """
    directory = Path(directory)
    settings = _read_json(directory / CONFIG_FILE)
    config = read_config(settings, directory / CONFIG_FILE)
    if dtype is None:
        # Newer files say "dtype", older ones "torch_dtype".
        name = settings.get("dtype") or settings.get("torch_dtype") or "float32"
        if not isinstance(name, str) or name not in DTYPES:
            raise CheckpointError(
                f"`{directory}` holds weights of an unknown dtype, `{name}`",
                hint="name one: `load_model(directory, dtype=torch.bfloat16)`",
            )
        dtype = DTYPES[name]
    model = Model(config, device=torch.device(device), dtype=dtype)
    _fill(model, directory)
    return model


def read_config(settings: Mapping[str, Any], path: Path) -> ModelConfig:
    """The shape that a config.json describes.

    Raises:
        CheckpointError: another architecture, or a variant that the model does not compute.
    """
    named = settings.get("architectures") or []
    architectures = [str(name) for name in (named if isinstance(named, list) else [named])]
    if ARCHITECTURE not in architectures:
        raise CheckpointError(
            f"`{path}` describes another architecture",
            why=f"it says {', '.join(architectures) or 'none'}; this loads {ARCHITECTURE}",
        )
    missing = [name for name in _SIZES.values() if not _is_size(settings.get(name))]
    if missing:
        raise CheckpointError(
            f"`{path}` lacks sizes", why=f"it has no positive whole number for {', '.join(missing)}"
        )
    # The rotation's settings moved into one dictionary.
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise CheckpointError(
            f"`{path}` cannot be read", why="the rotation's settings are no object"
        )
    kind = rope.get("rope_type") or rope.get("type") or "default"
    unknown = {
        "rope_type": (kind, "default"),
        "attention_bias": (settings.get("attention_bias", False), False),
        "use_sliding_window": (settings.get("use_sliding_window", False), False),
        "hidden_act": (settings.get("hidden_act", "silu"), "silu"),
    }
    for name, (value, known) in unknown.items():
        if value != known:
            raise CheckpointError(
                f"`{path}` describes a variant that the reference model does not compute",
                why=f"{name} is {value!r}; it must be {known!r}",
            )
    sizes = {ours: settings[theirs] for ours, theirs in _SIZES.items()}
    theta = rope.get("rope_theta") or settings.get("rope_theta") or 10_000.0
    return ModelConfig(
        **sizes,
        tied=bool(settings.get("tie_word_embeddings", False)),
        rope_theta=_number(theta, "rope_theta", path),
        norm_eps=_number(settings.get("rms_norm_eps", 1e-6), "rms_norm_eps", path),
    )


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _number(value: Any, name: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CheckpointError(f"`{path}` cannot be read", why=f"{name} is {value!r}, no number")
    return float(value)


def _fill(model: Model, directory: Path) -> None:
    """Copy every tensor into its weight; complain of what is missing, surplus or misshapen."""
    targets = _targets(model)
    missing = set(targets)
    with torch.no_grad():
        for name, tensor in _tensors(directory):
            # A tied checkpoint may hold the output projection all the same.
            if name == "lm_head.weight" and model.config.tied:
                continue
            target = targets.get(name)
            if target is None:
                raise CheckpointError(
                    f"`{directory}` holds a tensor that the model has no place for",
                    why=f"`{name}`, of shape {tuple(tensor.shape)}",
                )
            if tensor.shape != target.shape:
                raise CheckpointError(
                    f"`{directory}` holds a tensor of the wrong shape",
                    why=f"`{name}` is {tuple(tensor.shape)}; by {CONFIG_FILE} it is "
                    f"{tuple(target.shape)}",
                )
            target.copy_(tensor)
            missing.discard(name)
    if missing:
        raise CheckpointError(
            f"`{directory}` lacks {len(missing)} of {len(targets)} tensors",
            why=f"the first is `{min(missing)}`",
            hint="download the checkpoint again: a shard may be missing",
        )


def _targets(model: Model) -> dict[str, Tensor]:
    """Our weights by Hugging Face's names."""
    targets: dict[str, Tensor] = {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": model.norm.weight,
    }
    if not model.config.tied:
        targets["lm_head.weight"] = model.head
    for index, layer in enumerate(model.layers):
        for ours, theirs in _LAYER_NAMES.items():
            weight = layer.get_parameter(f"{ours}.weight")
            targets[f"model.layers.{index}.{theirs}.weight"] = weight
    return targets


def _tensors(directory: Path) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of the checkpoint, one at a time."""
    if importlib.util.find_spec("safetensors") is None:
        raise CheckpointError(
            f"cannot read `{directory}`",
            why="the package safetensors is not installed",
            hint="pip install safetensors",
        )
    from safetensors import SafetensorError, safe_open

    if (directory / INDEX_FILE).exists():
        weight_map = _read_json(directory / INDEX_FILE).get("weight_map")
        if not isinstance(weight_map, dict):
            raise CheckpointError(
                f"`{directory / INDEX_FILE}` cannot be read", why="its weight_map is no object"
            )
        files = sorted({directory / str(name) for name in weight_map.values()})
    else:
        files = [directory / SINGLE_FILE]
    for file in files:
        # A shard's name comes from the index: it must not lead out of the directory.
        if file.parent != directory or not file.is_file():
            raise CheckpointError(
                f"`{file}` is missing", hint=f"`{directory}` must hold all shards"
            )
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (no mapping: it has nothing but keys)
                    yield name, tensors.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"`{file}` is damaged", why=str(error)) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(
            f"`{path}` is missing", hint="name a directory in Hugging Face's layout"
        ) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"`{path}` cannot be read", why=str(error)) from None
    if not isinstance(value, dict):
        raise CheckpointError(f"`{path}` cannot be read", why="it holds no JSON object")
    return value
