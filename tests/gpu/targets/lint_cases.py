"""Loops for lint to predict and for a GPU to show: small, since counts do not depend on size."""

from __future__ import annotations

import functools
from typing import Any

import torch

from decodeprof.reference import demo, plain
from decodeprof.reference.decoder import FastDecoder
from decodeprof.reference.model import TINY, Model, random_model

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CAPACITY = 128
TOKENS = 35
"""Two stop checks of the fast decoder lie within the steps whose end is seen."""
SMALL: dict[str, Any] = {"vocab_size": 96, "bos_token_id": 0, "eos_token_id": 95}
LLAMA: dict[str, Any] = SMALL | {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
GPT2: dict[str, Any] = SMALL | {"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 128}


@functools.cache
def _model() -> Model:
    return random_model(TINY, device=DEVICE)


@functools.cache
def _decoder(**options: Any) -> FastDecoder:
    return FastDecoder(_model(), CAPACITY, **options)


def _decode(**options: Any) -> list[int]:
    return _decoder(**options).generate(demo.prompt(_model()), TOKENS)


def stage_plain() -> list[int]:
    """The worked example's plain loop."""
    return plain.generate(_model(), demo.prompt(_model()), TOKENS)


def stage_eager() -> list[int]:
    """State on the device."""
    return _decode()


def stage_graph() -> list[int]:
    """One graph launch a step."""
    return _decode(mode="graph", prefill_buckets=True)


def stage_fused() -> list[int]:
    """A graph over joined projections."""
    return _decode(mode="graph", joined=True, prefill_buckets=True)


def stage_pipelined() -> list[int]:
    """The pipelined stop check, without the Triton kernels, which lint cannot run."""
    return _decode(mode="graph", joined=True, prefill_buckets=True, pipelined=True)


@functools.cache
def _transformer(kind: str) -> Any:
    import transformers

    torch.manual_seed(0)
    if kind == "gpt2":
        made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))
    elif kind == "llama":
        made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
    else:
        made = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**LLAMA, head_dim=8))
    return made.eval().to(DEVICE)


def _generate(kind: str, **options: Any) -> torch.Tensor:
    model = _transformer(kind)
    torch.manual_seed(1)
    ids = torch.arange(1, 8).view(1, -1).to(DEVICE)
    tokens: torch.Tensor = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=TOKENS,
        min_new_tokens=TOKENS,
        pad_token_id=0,
        **options,
    )
    return tokens


def hf_gpt2_greedy() -> torch.Tensor:
    """GPT-2, greedy, growing cache."""
    return _generate("gpt2", do_sample=False)


def hf_llama_sampling() -> torch.Tensor:
    """Llama, sampling with top-k and top-p."""
    return _generate("llama", do_sample=True, top_k=20, top_p=0.9, temperature=0.8)


def hf_qwen3_greedy() -> torch.Tensor:
    """Qwen3, greedy, growing cache."""
    return _generate("qwen3", do_sample=False)


def hf_llama_beams() -> torch.Tensor:
    """Llama, three beams."""
    return _generate("llama", do_sample=False, num_beams=3)


def hf_qwen3_static() -> torch.Tensor:
    """Qwen3, static cache, not compiled."""
    return _generate("qwen3", do_sample=False, cache_implementation="static", disable_compile=True)
