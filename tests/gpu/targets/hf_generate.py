"""`transformers` generate, unchanged, on a Qwen3 of the 0.6B shape with random weights."""

from __future__ import annotations

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

PROMPT_LENGTH = 16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def config() -> Qwen3Config:
    """The 0.6B shape on a GPU, a tiny one without."""
    small = DEVICE == "cpu"
    return Qwen3Config(
        vocab_size=512 if small else 151_936,
        hidden_size=64 if small else 1024,
        intermediate_size=128 if small else 3072,
        num_hidden_layers=2 if small else 28,
        num_attention_heads=4 if small else 16,
        num_key_value_heads=2 if small else 8,
        head_dim=16 if small else 128,
        max_position_embeddings=4096,
        rope_theta=1_000_000,
        tie_word_embeddings=True,
    )


torch.manual_seed(0)
with torch.device(DEVICE):
    torch.set_default_dtype(torch.bfloat16)
    model = Qwen3ForCausalLM(config()).eval()
    torch.set_default_dtype(torch.float32)
    prompt = torch.randint(0, 512, (1, PROMPT_LENGTH))


def generate(max_new_tokens: int = 32) -> torch.Tensor:
    """Generate greedily; the random model's end-of-sequence token is never forced."""
    return model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=max_new_tokens,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=511,
    )
