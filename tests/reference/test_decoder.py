"""The fast decoder makes the plain loop's tokens in every mode that a CPU can run."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from decodeprof.reference import decoder as decoder_module
from decodeprof.reference import demo, plain
from decodeprof.reference.decoder import FastDecoder
from decodeprof.reference.graphs import bucket_for
from decodeprof.reference.jobs import ALL_KERNELS, KernelOptions
from decodeprof.reference.model import TINY, Model, random_model
from decodeprof.reference.sampling import Sampling
from decodeprof.reference.state import put_back

CAPACITY = 64
PROMPT = [5, 77, 30, 12, 9]
NEW = 24

OPTIONS: dict[str, dict[str, Any]] = {
    "eager": {},
    "compile": {"mode": "compile"},
    "joined": {"joined": True},
    "kernels": {"joined": True, "kernels": ALL_KERNELS},
    "joined compile": {"joined": True, "mode": "compile"},
    "prefill buckets": {"prefill_buckets": True},
    "pipelined": {"pipelined": True},
    "check every step": {"check_every": 1},
}


@functools.cache
def model() -> Model:
    return random_model(TINY, seed=5)


@functools.cache
def expected(stop: tuple[int, ...] = ()) -> list[int]:
    return plain.generate(model(), PROMPT, NEW, stop=stop)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_greedy_tokens_equal_the_plain_loops(options: dict[str, Any]) -> None:
    # A model of its own: joining repoints its projections.
    decoder = FastDecoder(random_model(TINY, seed=5), CAPACITY, **options)
    assert len(set(expected())) > 8, "a text that repeats itself would prove little"
    assert decoder.generate(PROMPT, NEW) == expected()
    assert list(decoder.stream(PROMPT, NEW)) == expected()
    assert decoder.generate(PROMPT[:2], 5) == plain.generate(model(), PROMPT[:2], 5)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("at", [0, 1, 7, NEW - 1])
def test_a_stop_token_ends_the_text(options: dict[str, Any], at: int) -> None:
    stop = (expected()[at], 511)
    decoder = FastDecoder(random_model(TINY, seed=5), CAPACITY, **options)
    assert decoder.generate(PROMPT, NEW, stop=stop) == expected(stop)
    assert list(decoder.stream(PROMPT, NEW, stop=stop)) == expected(stop)
    assert decoder.generate(PROMPT, NEW) == expected(), "what one call left must not end the next"


@pytest.mark.parametrize(
    ("options", "steps"),
    [({"check_every": 16}, 16), ({"check_every": 1}, 8), ({"pipelined": True}, 9)],
    ids=["every 16", "every step", "pipelined"],
)
def test_surplus_steps(
    options: dict[str, Any], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop token comes of the eighth step; how many were run until that was noticed?"""
    stop = expected()[8]
    assert expected().index(stop) == 8
    decoder = FastDecoder(model(), CAPACITY, **options)
    ran = 0
    run = decoder_module.FastDecoder._step

    def counted(self: FastDecoder, rows: int) -> None:
        nonlocal ran
        ran += 1
        run(self, rows)

    monkeypatch.setattr(decoder_module.FastDecoder, "_step", counted)
    assert len(decoder.generate(PROMPT, NEW, stop={stop})) == 9
    assert ran == steps


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_prompts_of_different_lengths_are_decoded_together(options: dict[str, Any]) -> None:
    prompts = [PROMPT, demo.prompt(model(), 31), [8]]
    decoder = FastDecoder(random_model(TINY, seed=5), CAPACITY, rows=3, **options)
    texts = decoder.generate_batch(prompts, NEW)
    assert texts == [plain.generate(model(), prompt, NEW) for prompt in prompts]
    # A smaller batch reuses the rows, with what they still hold.
    assert decoder.generate_batch(prompts[1:], 9) == [text[:9] for text in texts[1:]]


def test_a_row_that_has_ended_waits_for_the_others() -> None:
    prompts = [PROMPT, demo.prompt(model(), 7)]
    stop = {expected()[3]}
    decoder = FastDecoder(model(), CAPACITY, rows=2, check_every=4)
    texts = decoder.generate_batch(prompts, NEW, stop=stop)
    assert texts == [plain.generate(model(), prompt, NEW, stop=stop) for prompt in prompts]
    assert len(texts[0]) < len(texts[1])


def test_the_last_slot_can_be_used() -> None:
    capacity = len(PROMPT) + NEW - 1
    decoder = FastDecoder(model(), capacity, prefill_buckets=True)
    assert decoder.generate(PROMPT, NEW) == expected()
    with pytest.raises(ValueError, match="need 29 slots, but the capacity is 28"):
        decoder.generate(PROMPT, NEW + 1)


def test_a_prompt_that_fills_the_capacity() -> None:
    prompt = demo.prompt(model(), CAPACITY)
    for buckets in (False, True):
        decoder = FastDecoder(model(), CAPACITY, prefill_buckets=buckets)
        assert decoder.generate(prompt, 1) == plain.generate(model(), prompt, 1)


def test_padding_touches_no_real_token() -> None:
    """A longer prompt came before, so that the padding is not zeros."""
    decoder = FastDecoder(model(), CAPACITY, prefill_buckets=True)
    decoder.generate(demo.prompt(model(), 16), 1)
    assert decoder.generate(PROMPT, NEW) == expected()
    assert decoder.prefill is not None
    assert decoder.prefill.buckets == (16, 32, CAPACITY)


def test_sampling_is_seeded_and_differs_by_seed() -> None:
    decoder = FastDecoder(model(), CAPACITY, sampling=Sampling(temperature=1.0, top_k=50))
    first = decoder.generate(PROMPT, NEW, seed=1)
    assert decoder.generate(PROMPT, NEW, seed=1) == first
    assert decoder.generate(PROMPT, NEW, seed=2) != first
    assert list(decoder.stream(PROMPT, NEW, seed=1)) == first


def test_a_compiled_step_samples_what_an_eager_one_does() -> None:
    sampling = Sampling(temperature=1.0, top_k=50, top_p=0.9, min_p=0.01)
    eager = FastDecoder(model(), CAPACITY, rows=2, sampling=sampling)
    compiled = FastDecoder(model(), CAPACITY, rows=2, sampling=sampling, mode="compile")
    first = compiled.generate(PROMPT, NEW, seed=1)
    assert first == eager.generate(PROMPT, NEW, seed=1)
    assert first != compiled.generate(PROMPT, NEW, seed=2)
    prompts = [PROMPT, PROMPT[:2]]
    assert compiled.generate_batch(prompts, 9) == eager.generate_batch(prompts, 9)


@pytest.mark.parametrize("options", [{}, {"pipelined": True}], ids=["every 16", "pipelined"])
def test_a_stream_that_another_call_cut_says_so(options: dict[str, Any]) -> None:
    decoder = FastDecoder(model(), CAPACITY, **options)
    stream = decoder.stream(PROMPT, NEW)
    begun = next(stream)
    assert decoder.generate(PROMPT[:2], 3) == plain.generate(model(), PROMPT[:2], 3)
    with pytest.raises(RuntimeError, match="another text"):
        list(stream)
    assert begun == expected()[0]
    assert list(decoder.stream(PROMPT, NEW)) == expected()


def test_state_is_put_back_after_steps() -> None:
    decoder = FastDecoder(model(), CAPACITY, sampling=Sampling(temperature=1.0))
    decoder.generate(PROMPT, 9)
    state, cache = decoder.state, decoder.cache
    tensors = [state.token, state.position, state.made, state.stopped, *cache.keys, *cache.values]
    before = [tensor.clone() for tensor in tensors]
    random = decoder._generator.get_state()
    with put_back(state, cache, steps=4, generator=decoder._generator), torch.no_grad():
        for _ in range(4):
            decoder._decode(1)
        changed = [not torch.equal(a, b) for a, b in zip(tensors, before, strict=True)]
    assert all(changed[:3])
    assert all(changed[4:])
    assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))
    assert torch.equal(decoder._generator.get_state(), random)


def test_joining_keeps_the_model_and_takes_no_memory() -> None:
    own = random_model(TINY, seed=5)
    before = {name: value.clone() for name, value in own.state_dict().items()}
    FastDecoder(own, CAPACITY, joined=True)
    assert all(torch.equal(value, before[name]) for name, value in own.state_dict().items())
    attention = own.layers[0].attention
    storages = {
        p.weight.untyped_storage().data_ptr() for p in (attention.q, attention.k, attention.v)
    }
    assert len(storages) == 1
    assert plain.generate(own, PROMPT, NEW) == expected()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "fast"}, 'unknown mode "fast": it is one of "eager", "graph", "compile"'),
        ({"mode": "graph"}, "graphs need a CUDA device; the model is on cpu"),
        ({"kernels": KernelOptions(norm=True)}, "joined=True"),
        ({"rows": 17}, "rows is 1 to 16, not 17"),
        ({"check_every": 0}, "check_every is at least 1"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        FastDecoder(model(), CAPACITY, **options)


def test_a_capacity_of_nothing() -> None:
    with pytest.raises(ValueError, match='in mode "eager" the capacity is at least 1, not 0'):
        FastDecoder(model(), 0)


def test_calls_that_cannot_be() -> None:
    decoder = FastDecoder(model(), CAPACITY)
    with pytest.raises(ValueError, match="empty"):
        decoder.generate([], 3)
    with pytest.raises(ValueError, match="2 prompts, but the decoder has 1 rows"):
        decoder.generate_batch([[1], [2]], 3)
    assert decoder.generate_batch([], 3) == []
    assert decoder.generate(PROMPT, 3, stop=[511] * 9) == expected()[:3], "one token, named often"
    with pytest.raises(ValueError, match="at most 8"):
        decoder.generate([1], 3, stop=range(9))
    with pytest.raises(ValueError, match="capacity"):
        next(decoder.stream([1], CAPACITY + 1))
    assert decoder.generate([1], 0) == []
    assert list(decoder.stream([1], 0)) == []


def test_buckets() -> None:
    assert [bucket_for(size, (1, 2, 4)) for size in (1, 2, 3, 4)] == [1, 2, 4, 4]
    with pytest.raises(ValueError, match="5 is more than the largest bucket, 4"):
        bucket_for(5, (1, 2, 4))
