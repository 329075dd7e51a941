"""Measure every stage of the worked example on this GPU; print one table, write JSON.

    python tests/gpu/stages_h200.py --out DIR [--shape 0.6b --shape 8b] [--only norm …]

A stage that fails prints its error, and the others go on.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from decodeprof.reference import demo, fused, plain, stages
from decodeprof.reference.decoder import FastDecoder
from decodeprof.reference.jobs import KernelOptions, choose_jobs
from decodeprof.reference.matvec import Weigh, matvec_torch, matvec_triton
from decodeprof.reference.measure import step_ns
from decodeprof.reference.model import SHAPES, TINY, Model, random_model, step_weight_bytes
from decodeprof.reference.stage_runs import with_counts

BANDWIDTH = 4.27e12
"""Bytes a second that an H200's memory gives to a copy."""
KERNELS = KernelOptions(norm=True, place=True, attend=True, gate=True, matvec=True, overlap=True)
SLOW = ("plain", "eager")
"""Run at the small shape alone: what they show does not depend on the size."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shape", action="append", choices=["0.6b", "8b"])
    parser.add_argument("--only", action="append")
    parser.add_argument("--no-extras", action="store_true")
    parser.add_argument("--no-profile", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    results["kernels"] = attempt("kernels against PyTorch", check_kernels)
    for name in arguments.shape or ["0.6b", "8b"]:
        model = random_model(SHAPES[name], device="cuda", dtype=torch.bfloat16)
        gigabytes = step_weight_bytes(model) / 1e9
        floor_ms = gigabytes / BANDWIDTH * 1e12
        print(f"\n{name}: {gigabytes:.2f} GB a step, floor {floor_ms:.2f} ms", flush=True)
        chosen = arguments.only or list(stages.STAGES)
        if name == "8b" and not arguments.only:
            chosen = [stage for stage in chosen if stage not in SLOW]
        results[name] = run_stages(model, chosen, profile=not arguments.no_profile)
        if not arguments.no_extras and name == "0.6b":
            results["prefill"] = attempt("prefill", lambda m=model: measure_prefill(m))
            results["buckets"] = attempt("buckets", lambda m=model: measure_buckets(m))
        del model
        gc.collect()
        torch.cuda.empty_cache()
        write(arguments.out, results)
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    return 0


def write(out: Path, results: dict[str, Any]) -> None:
    (out / "stages.json").write_text(json.dumps(results, indent=1) + "\n")


def attempt(name: str, run: Any) -> Any:
    """Run a part; what it raises is printed, and the rest goes on."""
    try:
        return run()
    except Exception as error:  # one part's failure must not cost the GPU time of the others
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
        traceback.print_exc(limit=-4, file=sys.stdout)
        return {"error": f"{type(error).__name__}: {error}"}


def run_stages(model: Model, names: list[str], *, profile: bool) -> dict[str, Any]:
    # Times first, for every stage: a profiler stays attached and slows the host down after it.
    expected = plain.generate(model, demo.prompt(model), stages.COMPARED_TOKENS)
    print(
        f"{'stage':<10} {'ms':>7} {'tok/s':>7} {'MBU':>5} {'kern':>7} {'/layer':>6} {'launch':>7} "
        f"{'graphs':>6} {'syncs':>6} {'same':>6} {'capt s':>6} {'pool MB':>7} {'skips':>5}",
        flush=True,
    )
    running: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for name in names:
        running[name] = attempt(name, lambda n=name: stages.start(n, model))
        results[name] = running[name]
        if isinstance(running[name], stages.Running):
            results[name] = attempt(name, lambda n=name: one(running[n], expected))
    if profile:
        print("counts:", flush=True)
        for name in names:
            if isinstance(results[name], stages.StageResult):
                results[name] = attempt(name, lambda n=name: count(running[n], results[n]))
        show_kernels(results)
    return {
        name: dataclasses.asdict(result) if dataclasses.is_dataclass(result) else result
        for name, result in results.items()
    }


def one(running: stages.Running, expected: list[int]) -> stages.StageResult:
    result = stages.measure(
        running, expected=expected, bandwidth_bytes_per_s=BANDWIDTH, profile=False
    )
    show(result)
    return result


def count(running: stages.Running, timed: stages.StageResult) -> stages.StageResult:
    result = with_counts(running, timed)
    show(result)
    return result


def show(result: stages.StageResult) -> None:
    def write(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    pool_mb = None if result.pool_bytes is None else result.pool_bytes / 1e6
    print(
        f"{result.name:<10} {result.step_ns / 1e6:7.3f} {result.tokens_per_s:7.0f} "
        f"{write(result.mbu_share, '5.2f')} {write(result.kernels, '7.1f'):>7} "
        f"{write(result.kernels_per_layer, '6.1f'):>6} {write(result.launches, '7.2f'):>7} "
        f"{write(result.graph_launches, '6.2f'):>6} {write(result.syncs, '6.3f'):>6} "
        f"{result.same_tokens:>3}/{result.compared_tokens} "
        f"{write(result.capture_seconds, '6.2f'):>6} {write(pool_mb, '7.1f'):>7} "
        f"{result.graphs_skipped:>5}",
        flush=True,
    )


def show_kernels(results: dict[str, Any]) -> None:
    """The best stage's kernels by time: where the rest above the floor goes."""
    good = {n: r for n, r in results.items() if getattr(r, "rows", ())}
    fastest = sorted(good, key=lambda n: good[n].step_ns)[:2]
    for name in [*fastest, *({"matvec", "gate", "compiled"} & set(good) - set(fastest))]:
        rows = good[name].rows
        busy = sum(row.time_ns_per_step for row in rows)
        print(f"\n{name}: {good[name].step_ns / 1e3:.1f} µs a step, kernels {busy / 1e3:.1f} µs")
        for row in rows[:14]:
            mean = row.time_ns_per_step / row.count_per_step / 1e3
            print(
                f"  {row.time_ns_per_step / 1e3:8.1f} µs  {row.count_per_step:7.1f} × "
                f"{mean:7.2f} µs  {row.name[:90]}"
            )


def measure_prefill(model: Model) -> dict[str, Any]:
    """Time to the first token, launched and replayed, by prompt length."""
    out: dict[str, Any] = {}
    decoders = {
        "launched": FastDecoder(model, 1024, mode="graph"),
        "graph": FastDecoder(model, 1024, mode="graph", prefill_buckets=True),
    }
    for length in (16, 100, 500):
        prompt = demo.prompt(model, length)
        row = {}
        for name, decoder in decoders.items():
            for _ in range(2):
                decoder.generate(prompt, 1)
            samples = []
            for _ in range(5):
                torch.cuda.synchronize()
                start = time.perf_counter()
                decoder.generate(prompt, 1)
                samples.append(time.perf_counter() - start)
            row[name] = sorted(samples)[2] * 1e3
        out[str(length)] = row
        print(f"prompt of {length}: {row['launched']:.2f} ms launched, {row['graph']:.2f} ms graph")
    captured = decoders["graph"].prefill.captured  # type: ignore[union-attr]
    for bucket, graph in captured.items():
        print(f"  bucket {bucket}: {graph.seconds:.2f} s, {graph.pool_bytes / 1e6:.1f} MB")
        out[f"bucket {bucket}"] = {"seconds": graph.seconds, "pool_bytes": graph.pool_bytes}
    return out


def measure_buckets(model: Model) -> dict[str, Any]:
    """Step time by live rows, and what each bucket's graph costs."""
    decoder = FastDecoder(model, 512, mode="graph", rows=16, joined=True, kernels=KERNELS)
    for rows in (16, 8, 4, 2, 1):
        decoder.warm_up(rows)
    out: dict[str, Any] = {}
    for rows in (1, 2, 3, 4, 8, 16):
        prompts = [demo.prompt(model)] * rows
        ns = step_ns(lambda n, p=prompts: decoder.generate_batch(p, n)[0], most_tokens=480)
        out[str(rows)] = ns
        print(f"{rows:>2} rows: {ns / 1e6:.3f} ms a step, {rows * 1e9 / ns:,.0f} tokens/s")
    for bucket, graph in sorted(decoder.graphs.items()):
        print(f"  bucket {bucket}: {graph.seconds:.2f} s, {graph.pool_bytes / 1e6:.2f} MB")
        out[f"bucket {bucket}"] = {"seconds": graph.seconds, "pool_bytes": graph.pool_bytes}
    return out


def check_kernels() -> dict[str, float]:
    """Largest difference of each kernel from PyTorch, relative to the largest value, at 0.6B."""
    config = SHAPES["0.6b"]
    model = random_model(
        dataclasses.replace(config, layers=1, vocab_size=1024), device="cuda", dtype=torch.bfloat16
    )
    joined = fused.JoinedModel(model, 512)
    jobs = choose_jobs(KERNELS, torch.device("cuda"))
    weights = joined.layers[0]
    from decodeprof.reference.cache import StaticKVCache

    def cache() -> StaticKVCache:
        generator = torch.Generator("cuda").manual_seed(0)
        made = StaticKVCache.zeros(
            model.config, rows=2, capacity=512, device=torch.device("cuda"), dtype=torch.bfloat16
        )
        for tensor in (*made.keys, *made.values):
            tensor.normal_(generator=generator)
        return made

    ours, theirs = cache(), cache()
    positions = torch.tensor([17, 400], device="cuda")
    x = torch.randn(2, config.hidden_size, device="cuda", dtype=torch.bfloat16)
    turn, own = joined.turn(positions, theirs), joined.turn(positions, ours)
    qkv = x @ weights.qkv.T
    worst: dict[str, float] = {}

    def compare(name: str, got: torch.Tensor, expected: torch.Tensor) -> None:
        difference = (got.float() - expected.float()).abs().max() / expected.float().abs().max()
        worst[name] = float(difference)

    compare("norm", jobs.add_norm(x, x, weights.attention_norm, 1e-6)[1],
            fused.add_norm(x, x, weights.attention_norm, 1e-6)[1])  # fmt: skip
    q = fused.place(qkv, weights, 0, turn)
    compare("place", jobs.place(qkv, weights, 0, own), q)
    compare("place: keys", ours.keys[0], theirs.keys[0])
    compare("attend", jobs.attend(q, 0, turn), fused.attend(q, 0, turn))
    gate_up = x @ weights.gate_up.T
    compare("gate", jobs.gate(gate_up), fused.gate(gate_up))
    for overlap in (False, True):
        for name, job in {
            "qkv": Weigh(weights.qkv, norm=weights.attention_norm),
            "gate_up": Weigh(weights.gate_up, norm=weights.feed_forward_norm, gated=True),
        }.items():
            got = matvec_triton(job, x[:1], residual=None, eps=1e-6, overlap=overlap)
            compare(f"matvec {name} {overlap=}", got,
                    matvec_torch(job, x[:1], residual=None, eps=1e-6))  # fmt: skip
    tiny = random_model(TINY, device="cuda")
    expected = plain.generate(tiny, demo.prompt(tiny), 64)
    for mode in ("eager", "graph"):
        decoder = FastDecoder(tiny, 128, mode=mode, joined=True, kernels=KERNELS)
        same = decoder.generate(demo.prompt(tiny), 64) == expected
        worst[f"tiny float32, all kernels, {mode}: tokens differ"] = float(not same)
    print("kernels against PyTorch (bfloat16), relative:")
    for name, value in worst.items():
        print(f"  {name}: {value:.2e}")
    return worst


if __name__ == "__main__":
    sys.exit(main())
