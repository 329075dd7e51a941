"""`transformers` generate runs as it is, and makes the tokens that it makes on a CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from decodeprof.lint import predict

transformers = pytest.importorskip("transformers")
SMALL: dict[str, Any] = {"vocab_size": 96, "bos_token_id": 0, "eos_token_id": 95}
LLAMA: dict[str, Any] = SMALL | {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
GPT2: dict[str, Any] = SMALL | {"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.8},
    "beams": {"do_sample": False, "num_beams": 3},
    "static": {"do_sample": False, "cache_implementation": "static"},
}
NEW_TOKENS = 10


def model(kind: str, device: str) -> Any:
    torch.manual_seed(0)
    if kind == "gpt2":
        made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))
    elif kind == "llama":
        made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
    elif kind == "mixtral":
        experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
        made = transformers.MixtralForCausalLM(transformers.MixtralConfig(**LLAMA, **experts))
    else:
        made = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**LLAMA, head_dim=8))
    return made.eval().to(device)


def generate(kind: str, device: str, **options: Any) -> torch.Tensor:
    made = model(kind, device)
    torch.manual_seed(1)
    ids = torch.arange(1, 8).view(1, -1).to(device)
    tokens: torch.Tensor = made.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        **options,
    )
    return tokens


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen3"])
def test_tokens_are_those_of_the_cpu(kind: str, way: str) -> None:
    # On a CPU nothing is compiled for a static cache, nor is it while we pretend.
    plain = {"disable_compile": True} if way == "static" else {}
    expected = generate(kind, "cpu", **WAYS[way], **plain)
    with predict() as found:
        tokens = generate(kind, "cuda", **WAYS[way])
        assert tokens.is_cuda
    assert torch.equal(tokens, expected)
    # The stop check reads a value each step, in every way of generating.
    often = [sync for sync in found.syncs if sync.in_prefill >= NEW_TOKENS - 1]
    assert any(sync.place.file == "transformers/generation/utils.py" for sync in often)


def test_a_model_that_takes_another_way_on_a_gpu_makes_the_same_tokens() -> None:
    # Its experts' tokens are counted as whole numbers there, for which the CPU has no kernel.
    expected = generate("mixtral", "cpu", do_sample=False)
    with predict() as found:
        tokens = generate("mixtral", "cuda", do_sample=False)
    assert torch.equal(tokens, expected)
    assert found.syncs
