"""Arguments stand where torch puts them: by its schemas, and by a profile of real ops."""

import json

import pytest

from decodeprof.analysis.traffic import products
from decodeprof.analysis.traffic.counting import _COUNTERS, count
from decodeprof.ingest.torch_trace import parse

torch = pytest.importorskip("torch")

CAT = "void CatArrayBatchedCopy<OpaqueType<4u>, unsigned int, 4, 64, 64>(int)"


def _argument_names(op):
    packet = getattr(torch.ops.aten, op.removeprefix("aten::"))
    return [argument.name for argument in getattr(packet, packet.overloads()[0])._schema.arguments]


@pytest.mark.parametrize("op", sorted(products.ATTENTION))
def test_positions_of_attention_agree_with_torchs_schemas(op):
    if not hasattr(torch.ops.aten, op.removeprefix("aten::")):
        pytest.skip(f"this torch has no {op}")
    names = _argument_names(op)
    assert names[:3] == ["query", "key", "value"]
    if op in products._CAUSAL_AT:
        assert names[products._CAUSAL_AT[op]] == "is_causal"
    if op not in products._NO_MASK:
        assert names[products._MASK_AT] in ("attn_mask", "attn_bias", "bias")
    for at in products._WINDOW_AT.get(op, ()):
        assert "window" in names[at]
    for at in products._KEYS_USED_AT.get(op, ()):
        assert names[at] in ("seqused_k", "seqlen_k", "block_table")
    for at in products._PACKED_AT.get(op, ()):
        assert names[at].startswith(("cum_seq", "cu_seqlens"))


def test_positions_of_the_masks_kind_and_of_scaled_products_agree_with_torchs_schemas():
    efficient = _argument_names("aten::_efficient_attention_forward")
    assert efficient[products._EFFICIENT_MASK_TYPE_AT] == "custom_mask_type"
    scaled = _argument_names("aten::_scaled_mm")
    assert scaled[products._SCALED_MM_BIAS] == "bias"
    assert scaled[products._SCALED_MM_DTYPE] == "out_dtype"


def test_every_op_that_is_counted_exists():
    # Ops that only some torch versions have.
    newer = {"aten::_scaled_dot_product_fused_attention_overrideable", "aten::_fused_rms_norm"}
    names = {name for name in _COUNTERS if name.startswith("aten::")} - newer
    # Every elementwise op is also counted in place, whether it has such a form or not.
    plain = {name for name in names if not (name.endswith("_") and name[:-1] in names)}
    missing = {name for name in plain if not hasattr(torch.ops.aten, name.removeprefix("aten::"))}
    assert missing == set()


def _profiled(function, tmp_path):
    """The ops that a function runs, as (name, detail), through a real profile and the reader."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        function()
    path = tmp_path / "trace.json"
    profile.export_chrome_trace(str(path))
    assert json.loads(path.read_bytes())["traceEvents"]
    trace = parse(path.read_bytes(), name="trace.json")
    return [
        (trace.names[name], trace.op_details[detail])
        for name, detail in zip(trace.ops.name, trace.ops.detail, strict=True)
        if detail >= 0
    ]


# On 6 × 32 floats (768 bytes) named x, and indices of 8 bytes; see the function that runs them.
@pytest.mark.parametrize(
    ("op", "run", "read", "written"),
    [
        ("aten::addmm", lambda x: torch.addmm(x[0, :6], x, x.T), 24 + 1536, 144),
        ("aten::bmm", lambda x: torch.bmm(x.view(2, 3, 32), x.view(2, 32, 3)), 1536, 72),
        ("aten::add", lambda x: x + 1.5, 768, 768),
        ("aten::add_", lambda x: x.add_(x.clone()), 1536, 768),
        ("aten::mul", lambda x: x * x[:, :1], 768 + 24, 768),
        ("aten::lt", lambda x: x < 0.5, 768, 192),
        ("aten::pow", lambda x: x**2, 768, 768),
        ("aten::rsqrt", torch.rsqrt, 768, 768),
        ("aten::where", lambda x: torch.where(x > 0, x, 0.0), 192 + 768, 768),
        ("aten::masked_fill_", lambda x: x.masked_fill_(x > 0, 0.0), 768 + 192, 768),
        ("aten::sum", lambda x: x.sum(-1), 768, 24),
        ("aten::mean", lambda x: x.mean(0), 768, 128),
        ("aten::argmax", lambda x: x.argmax(-1), 768, 48),
        ("aten::amax", lambda x: x.amax(-1), 768, 24),
        ("aten::max", lambda x: x.max(-1), 768, 6 * 12),
        ("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, dim=1), 768, 24),
        ("aten::_softmax", lambda x: x.softmax(-1), 768, 768),
        (
            "aten::native_layer_norm",
            lambda x: torch.nn.functional.layer_norm(x, (32,), x[0], x[1]),
            768 + 256, 768 + 48,
        ),
        ("aten::topk", lambda x: x.topk(5, dim=-1), 768, 6 * 5 * 12),
        ("aten::sort", lambda x: x.sort(-1), 768, 6 * 32 * 12),
        ("aten::copy_", lambda x: x.to(torch.bfloat16), 768, 384),
        ("aten::fill_", lambda x: x.fill_(1.0), 0, 768),
        ("aten::arange", lambda _: torch.arange(2, 12, 2), 0, 40),
        (
            "aten::embedding",
            lambda x: torch.nn.functional.embedding(torch.tensor([[1, 2, 1]]), x),
            3 * 128 + 24, 3 * 128,
        ),
        ("aten::index_select", lambda x: x.index_select(1, torch.tensor([0, 3])), 48 + 16, 48),
        ("aten::gather", lambda x: x.gather(1, torch.zeros(6, 2, dtype=torch.long)), 48 + 96, 48),
        (
            "aten::scatter_",
            lambda x: x.scatter_(1, torch.zeros(6, 2, dtype=torch.long), torch.ones(6, 2)),
            96 + 48, 48,
        ),
        (
            "aten::index_copy_",
            lambda x: x.index_copy_(0, torch.tensor([4]), torch.ones(1, 32)),
            8 + 128, 128,
        ),
        ("aten::cat", lambda x: torch.cat([x, x[:1]], 0), 896, 896),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_real_ops_are_counted_as_their_tensors_say(op, run, read, written, tmp_path):
    x = torch.rand(6, 32)
    found = _profiled(lambda: run(x), tmp_path)
    counted = [count(name, detail, CAT) for name, detail in found if name == op]
    # An op may call itself under another overload: whichever says how much, says the same.
    works = {work[:2] for work in counted if work is not None}
    assert len(works) == 1
    got_read, got_written = works.pop()
    assert (got_read, got_written) == (read, written)
