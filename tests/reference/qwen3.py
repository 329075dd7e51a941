"""Our weights inside transformers' Qwen3ForCausalLM: the model that the reference is held to."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from decodeprof.reference.model import Model


def transformers_config(model: Model) -> Qwen3Config:
    config = model.config
    return Qwen3Config(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_dim,
        rms_norm_eps=config.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        tie_word_embeddings=config.tied,
        max_position_embeddings=512,
    )


def as_transformers(model: Model) -> Any:
    """A Qwen3ForCausalLM that holds copies of the model's weights."""
    theirs = Qwen3ForCausalLM(transformers_config(model)).eval()
    names = {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": model.norm.weight,
        "lm_head.weight": model.head,
    }
    for index, layer in enumerate(model.layers):
        at = f"model.layers.{index}"
        attention, feed_forward = layer.attention, layer.feed_forward
        names |= {
            f"{at}.self_attn.q_proj.weight": attention.q.weight,
            f"{at}.self_attn.k_proj.weight": attention.k.weight,
            f"{at}.self_attn.v_proj.weight": attention.v.weight,
            f"{at}.self_attn.o_proj.weight": attention.o.weight,
            f"{at}.self_attn.q_norm.weight": attention.q_norm.weight,
            f"{at}.self_attn.k_norm.weight": attention.k_norm.weight,
            f"{at}.mlp.gate_proj.weight": feed_forward.gate.weight,
            f"{at}.mlp.up_proj.weight": feed_forward.up.weight,
            f"{at}.mlp.down_proj.weight": feed_forward.down.weight,
            f"{at}.input_layernorm.weight": layer.attention_norm.weight,
            f"{at}.post_attention_layernorm.weight": layer.feed_forward_norm.weight,
        }
    with torch.no_grad():
        theirs.load_state_dict(names)
    return theirs
