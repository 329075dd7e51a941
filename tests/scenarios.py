"""Programs that several tests tell: a decode loop, one step as a graph, a bare kernel loop."""

from __future__ import annotations

from tests.build import TraceBuilder

US = 1_000


def layer(b: TraceBuilder, *, kernel_ns: int = 2 * US, suffix: str = "") -> None:
    """A transformer layer's launches, small: norm, matrix product, attention, addition."""
    with b.op("aten::rms_norm"):
        b.launch("void rms_norm_kernel<float>(float*)", kernel_ns)
    b.work(3 * US)
    with b.op("aten::mm"):
        b.launch(f"nvjet_sm90_tst_64x8_{suffix}", kernel_ns)
    with b.op("aten::scaled_dot_product_attention"):
        b.launch(f"flash_fwd_kernel<{suffix}>", kernel_ns)
    b.work(1 * US)
    with b.op("aten::add"):
        b.launch("void vectorized_elementwise_kernel<4, CUDAFunctor_add>", kernel_ns)


def forward(b: TraceBuilder, *, query: int, layers: int, kernel_ns: int) -> None:
    """Embedding, layers and head."""
    with b.op("aten::embedding", shapes=((1000, 64), (1, query))):
        b.launch("indexSelectSmallIndex", kernel_ns)
    for _ in range(layers):
        layer(b, kernel_ns=kernel_ns, suffix="pre" if query > 1 else "dec")
    with b.op("aten::linear"):
        b.launch("gemv2T_head", kernel_ns)


def take_token(b: TraceBuilder) -> None:
    """Greedy sampling and `.item()`."""
    with b.op("aten::argmax"):
        b.launch("void reduce_kernel<512, ArgMaxOps>", 2 * US)
    with b.op("aten::item"):
        b.copy(1 * US)
        b.sync(stream=7)


def decode_loop(
    *, steps: int = 4, layers: int = 6, kernel_ns: int = 2 * US, prompt: int = 16
) -> TraceBuilder:
    """A naive loop: one prefill, then decode steps, each ended by `.item()`."""
    b = TraceBuilder()
    for index in range(steps + 1):
        b.step("decode" if index else "prefill")
        b.work(20 * US)
        forward(b, query=1 if index else prompt, layers=layers, kernel_ns=kernel_ns)
        take_token(b)
    return b


def graph_loop(*, replays: int = 5, nodes: int = 60, node_ns: int = 2 * US) -> TraceBuilder:
    """Each decode step is one graph launch; the host runs ahead."""
    b = TraceBuilder()
    for _ in range(replays):
        b.step("decode")
        b.work(10 * US)
        b.graph([(f"node_{n % 7}", node_ns) for n in range(nodes)])
    return b
