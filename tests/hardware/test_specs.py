"""The table of peaks: found by the names that traces write, sourced, and plausible."""

import tomllib
from importlib import resources

import pytest

from decodeprof import hardware


def _raw():
    text = resources.files("decodeprof.hardware").joinpath("specs.toml").read_text("utf-8")
    return tomllib.loads(text)


@pytest.mark.parametrize(
    ("name", "found", "tb_per_s"),
    [
        ("NVIDIA H200", "NVIDIA H200 SXM", 4.8),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL", 4.8),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", 3.35),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 2.0),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 96GB", 4.0),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM 80GB", 2.039),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB", 1.935),
        ("NVIDIA A100-PG509-200", "NVIDIA A100 SXM 40GB", 1.555),
        ("A100-SXM4-40GB", "NVIDIA A100 SXM 40GB", 1.555),
        ("NVIDIA B200", "NVIDIA B200", 8.0),
        ("NVIDIA B300 SXM6 AC", "NVIDIA B300", 8.0),
        ("NVIDIA L4", "NVIDIA L4", 0.3),
        ("NVIDIA L40S", "NVIDIA L40S", 0.864),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", 1.008),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM 32GB", 0.9),
        ("Tesla V100-DGXS-32GB", "NVIDIA V100 SXM 32GB", 0.9),
        ("AMD Instinct MI210", "AMD Instinct MI210", 1.6384),
        ("AMD Instinct MI250X", "AMD Instinct MI250X (one die)", 1.6384),
        ("AMD Instinct MI300X", "AMD Instinct MI300X", 5.3),
        ("  nvidia   h200 ", "NVIDIA H200 SXM", 4.8),
    ],
)
def test_names_as_traces_write_them(name, found, tb_per_s):
    spec = hardware.lookup(name)
    assert spec is not None
    assert spec.name == found
    assert spec.bandwidth_bytes_per_s == pytest.approx(tb_per_s * 1e12)


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "NVIDIA H2000",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA L40",
        "AMD Radeon Graphics",
        "cpu",
    ],
)
def test_an_unknown_name_gives_nothing(name):
    assert hardware.lookup(name) is None


def test_each_name_is_matched_by_one_pattern_only():
    names = {entry["name"] for entry in _raw()["device"]}
    assert len(names) == len(_raw()["device"])
    for spec in hardware.all_specs():
        hit = hardware.lookup(spec.name)
        assert hit is None or hit is spec


def test_every_number_has_a_source():
    raw = _raw()
    used = set()
    for entry in raw["device"]:
        used.add(entry["source"])
        others = entry.get("other_sources", {})
        assert set(others) <= set(entry["tflops"]) | {"memory", "bandwidth"}
        used |= set(others.values())
        if "measured" in entry:
            used.add(entry["measured"]["source"])
    for entry in [raw["typical"]["node_gap"], *raw["typical"]["latency"].values()]:
        used.add(entry["source"])
    assert used == set(raw["sources"])
    assert all(text.strip() for text in raw["sources"].values())


def test_peaks_are_plausible():
    for spec in hardware.all_specs():
        rates = spec.flops_per_s
        assert 1e11 < spec.bandwidth_bytes_per_s < 1e13, spec.name
        assert 1e10 < spec.memory_bytes < 1e12, spec.name
        assert rates["fp32"] < rates["fp16"], spec.name
        assert rates.get("bf16", rates["fp16"]) == rates["fp16"], spec.name
        # Each halving of the element doubles the rate: a rate with sparsity would not fit.
        if "fp8" in rates:
            assert rates["fp8"] == pytest.approx(2 * rates["fp16"], rel=0.02), spec.name
        if "tf32" in rates:
            assert rates["tf32"] == pytest.approx(rates["fp16"] / 2, rel=0.02), spec.name
        if spec.measured is not None:
            assert spec.measured.copy_bytes_per_s < spec.bandwidth_bytes_per_s
            assert spec.measured.read_bytes_per_s < spec.bandwidth_bytes_per_s


def test_rates_by_the_element_types_of_traces():
    spec = hardware.lookup("NVIDIA H200")
    assert spec.peak_flops("c10::BFloat16") == spec.peak_flops("bf16") == pytest.approx(989.4e12)
    assert spec.peak_flops("float") == pytest.approx(66.9e12)
    assert spec.peak_flops("long int") is None
    assert hardware.lookup("Tesla V100-SXM2-32GB").peak_flops("c10::BFloat16") is None


def test_a_single_number_may_have_its_own_source():
    spec = hardware.lookup("NVIDIA B300 SXM6 AC")
    assert "HGX" in spec.source_of("fp32")
    assert "HGX" not in spec.source_of("bf16")


def test_the_node_gap_says_on_which_device_it_was_measured():
    ns, source = hardware.typical_node_gap("NVIDIA H200")
    assert ns == 416
    assert "measured" in source
    assert "not on" not in source
    for name, text in (("NVIDIA B200", "not on NVIDIA B200"), (None, "not on this device")):
        ns, source = hardware.typical_node_gap(name)
        assert ns == 416
        assert text in source


def test_typical_latencies_cover_the_launch_kinds_and_lie_in_their_ranges():
    ranges = _raw()["typical"]["latency"]
    assert set(hardware.TYPICAL_LATENCY_NS) == {"kernel", "copy", "set", "graph"}
    for kind, ns in hardware.TYPICAL_LATENCY_NS.items():
        assert ranges[kind]["low_ns"] < ns < ranges[kind]["high_ns"]
