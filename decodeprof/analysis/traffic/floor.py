"""What must a step move, however it is written?

Floor bytes: each weight that the step reads, once (of an embedding the rows that it reads), the
valid part of the KV cache, and what it must leave behind (the new keys and values, the tokens).
Activations are not in it: fusion can keep them on the chip. What cannot be counted is left out, so
that the sum stays a floor, and named in the notes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from decodeprof import units
from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.traffic import products
from decodeprof.analysis.traffic.columns import KernelTraffic, OpUse
from decodeprof.analysis.traffic.operands import Arguments, UnknownSizeError
from decodeprof.model.families import family
from decodeprof.model.trace import I64, NONE, ActivityKind, Trace
from decodeprof.recording import ModelInfo

_TOKEN_BYTES = 8
_CACHE_WRITES = (
    "aten::index_copy_",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::scatter_",
)
_LOOK_UPS = ("aten::embedding", "aten::index_select")


@dataclass(frozen=True)
class StepFloor:
    """The least that one step can move and compute."""

    bytes: int | None
    """The sum of the parts that are known; None: not even the weights are."""
    flops: int | None
    """Of matrix products and attention; None: of some the size is not known."""
    flops_by_dtype: dict[str, int]
    weight_bytes: int | None
    weights_from: str
    """shapes | recording | unknown."""
    embedding_bytes: int
    kv_bytes: int | None
    """Valid keys and values; None: not known, and left out of the sum."""
    output_bytes: int
    notes: tuple[str, ...]
    """What was left out, one sentence each."""

    @property
    def dtype(self) -> str | None:
        """The element type in which most FLOPs are done; None: no FLOPs are known."""
        return max(self.flops_by_dtype, key=self.flops_by_dtype.__getitem__, default=None)


@dataclass(frozen=True)
class _Cache:
    """What one step reads and leaves of the KV cache."""

    read_bytes: int | None
    written_bytes: int
    batch: int
    notes: tuple[str, ...] = ()


def step_floor(
    trace: Trace,
    steps: Steps,
    traffic: KernelTraffic,
    *,
    step: int,
    model: ModelInfo | None = None,
) -> StepFloor:
    """Count what one step must move.

    Args:
        trace: the trace.
        steps: its steps.
        traffic: what its kernels moved.
        step: index of the step.
        model: what the recording says of the model: an upper bound on the weights, and all that is
            known of them where no op has shapes.
    """
    rows = steps.activities(step)
    uses = _uses(traffic, rows)
    notes: list[str] = []
    unsized = _unsized(trace, traffic, rows)
    weights, source = _weights(uses, model=model, complete=not unsized["matrix"])
    if weights is None:
        kernels = units.counted(
            unsized["matrix"], "matrix kernel has no shapes", "matrix kernels have no shapes"
        )
        notes.append(f"the weights: {kernels}, and no recording gives the parameters' size")
    embedding = sum(
        int(traffic.read_bytes[row])
        for row in rows[traffic.counted_at[rows] == rows].tolist()
        if traffic.use[row] != NONE and traffic.uses[traffic.use[row]].name in _LOOK_UPS
    )
    context = _context(steps, step, _query_length(steps, step, uses))
    cache = _cache(uses, context=context, unsized=unsized["attention"])
    notes += cache.notes
    outputs = cache.written_bytes + cache.batch * _TOKEN_BYTES
    flops, by_dtype = _flops(traffic, rows)
    total = None
    if weights is not None:
        total = weights + embedding + (cache.read_bytes or 0) + outputs
    return StepFloor(
        bytes=total,
        flops=flops if flops and not unsized.total() else None,
        flops_by_dtype=by_dtype,
        weight_bytes=weights,
        weights_from=source,
        embedding_bytes=embedding,
        kv_bytes=cache.read_bytes,
        output_bytes=outputs,
        notes=tuple(notes),
    )


def _uses(traffic: KernelTraffic, rows: I64) -> list[OpUse]:
    """The ops of a step, each once, in order."""
    used = traffic.use[rows]
    return [traffic.uses[i] for i in dict.fromkeys(used[used != NONE].tolist())]


def _unsized(trace: Trace, traffic: KernelTraffic, rows: I64) -> Counter[str]:
    """Kernels whose traffic is not known, by family."""
    kernels = rows[(trace.device.kind[rows] == ActivityKind.KERNEL) & ~traffic.known[rows]]
    found: Counter[str] = Counter()
    for name, n in Counter(trace.device.name[kernels].tolist()).items():
        found[family(trace.names[name])] += n
    return Counter({kind: found[kind] for kind in ("matrix", "attention")})


def _weights(
    uses: list[OpUse], *, model: ModelInfo | None, complete: bool
) -> tuple[int | None, str]:
    """Weight bytes that a step reads, and how they are known.

    Shapes alone count a weight that is used twice two times; a recording alone counts weights that
    this step does not use (experts that were not chosen). The smaller of the two is the floor.
    """
    sizes = [products.weight(use.name, use.detail) or 0 for use in uses if use.attention is None]
    shaped = sum(sizes) if complete else 0
    if model is not None and model.parameter_bytes:
        held = model.parameter_bytes - model.embedding_bytes
        # Quantised weights are buffers, and so may be a cache: they bound, but do not count.
        if shaped:
            bound = held + model.buffer_bytes
            return (shaped, "shapes") if shaped <= bound else (bound, "recording")
        return held, "recording"
    return (shaped, "shapes") if shaped else (None, "unknown")


def _flops(traffic: KernelTraffic, rows: I64) -> tuple[int, dict[str, int]]:
    by_dtype: Counter[str] = Counter()
    for row in rows[traffic.flops[rows] > 0].tolist():
        by_dtype[traffic.dtypes[traffic.use[row]]] += int(traffic.flops[row])
    return sum(by_dtype.values()), dict(by_dtype)


def _attentions(uses: list[OpUse]) -> list[OpUse]:
    """The outermost attention ops, each once (two equal ones are two)."""
    found = {id(use.attention): use.attention for use in uses if use.attention is not None}
    return list(found.values())


def _query_length(steps: Steps, step: int, uses: list[OpUse]) -> int | None:
    """Tokens of each sequence that a step processes."""
    known = steps.query_lengths[step]
    if known is not None:
        return known
    for attention in _attentions(uses):
        try:
            return products.attention_sizes(attention.name, attention.detail).queries
        except UnknownSizeError:
            continue
    return None


def _context(steps: Steps, step: int, own: int | None) -> int | None:
    """Tokens in the cache at the end of a step: all since the sequence's prefill, and its own.

    A step whose length is not known (a graph replay) is taken to have this step's own.
    """
    total = 0
    for i in range(step, -1, -1):
        length = steps.query_lengths[i] if steps.query_lengths[i] is not None else own
        if length is None or steps.phases[i] == "other":
            return None
        total += length
        if steps.phases[i] == "prefill":
            return total
    return None


def _cache(uses: list[OpUse], *, context: int | None, unsized: int) -> _Cache:
    attentions = _attentions(uses)
    if not attentions or unsized:
        if unsized:
            kernels = units.counted(unsized, "attention kernel has", "attention kernels have")
            why = f"the KV cache: {kernels} no shapes"
        elif any(use.name in ("aten::bmm", "aten::baddbmm") for use in uses):
            why = "the KV cache: attention is written as plain matrix products"
        else:
            why = "the KV cache: no attention op with shapes"
        return _Cache(None, 0, _batch(uses), (why,))
    read, written, batch = 0, 0, 0
    notes: list[str] = []
    for attention in attentions:
        try:
            sizes = products.attention_sizes(attention.name, attention.detail)
        except UnknownSizeError:
            sizes = None
        if sizes is None or sizes.packed:
            return _Cache(None, 0, batch, ("the KV cache: packed sequences of unknown lengths",))
        heads = _cached_heads(uses, sizes)
        entry = sizes.batch * heads * (sizes.width + sizes.value_width) * sizes.item_bytes
        valid = sizes.keys if context is None else min(context, sizes.keys)
        read += valid * entry
        written += min(sizes.queries, valid) * entry
        batch = max(batch, sizes.batch)
    # A cache that is written by index has room for more than it holds.
    if context is None and any(use.name in _CACHE_WRITES for use in uses):
        notes.append("the KV cache: how much of its capacity is in use is not known")
        return _Cache(None, written, batch, tuple(notes))
    return _Cache(read, written, batch, tuple(notes))


def _cached_heads(uses: list[OpUse], sizes: products.Sizes) -> int:
    """Heads as the cache holds them: attention may have been passed repeated copies.

    Seen by what writes the cache: a concatenation, or an indexed write, of four dimensions with
    attention's batch and width and fewer heads.
    """
    fewest = sizes.heads
    for use in uses:
        if use.name == "aten::cat":
            shapes = list(use.detail.lists[0]) if use.detail.lists else []
        elif use.name in _CACHE_WRITES and use.detail.shapes:
            first = use.detail.shapes[0]
            shapes = [first] if first is not None else []
        else:
            continue
        for shape in shapes:
            if len(shape) != 4 or shape[0] != sizes.batch or shape[3] != sizes.width:
                continue
            # A concatenation along the width (a rotary embedding's halves) holds no cache, and
            # its parts are narrower than attention's heads.
            heads = shape[1]
            if 0 < heads < fewest and sizes.heads % heads == 0:
                fewest = heads
    return fewest


def _batch(uses: list[OpUse]) -> int:
    """Sequences of a step, by the index of its first look-up; 0: not known."""
    for use in uses:
        if use.name == "aten::embedding":
            indices = Arguments(use.detail).maybe(1)
            if indices is not None:
                return indices.rows()
    return 0
