"""Files that are broken, or no trace at all: mended where that is safe, else a clear error."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import tarfile
import time
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import DecodeprofError, InputError
from decodeprof.ingest import byte_source
from decodeprof.ingest.mend import LARGEST_BYTES, escape_quotes, mend
from decodeprof.ingest.read import read_trace
from decodeprof.ingest.torch_trace import parse
from tests.build import TraceBuilder
from tests.reading import causes_of, content, gaps_of, read_bytes, steps_of
from tests.scenarios import decode_loop
from tests.write_kineto import LAYOUTS, kineto


def small() -> TraceBuilder:
    b = TraceBuilder()
    with b.annotation("decodeprof.forward m=0 q=1"), b.op("aten::mm", shapes=((2, 3), (3, 4))):
        b.launch("gemm", 3_000)
        b.copy(2_000)
        b.sync(recorded=True)
    b.graph([("a", 1_000), ("b", 2_000)])
    return b


TEXTS = {layout: kineto(small().build(), layout) for layout in LAYOUTS}
PLAIN = TEXTS["to_2_11"]
TEXT = PLAIN.decode()
WHOLE = content(parse(PLAIN, name="x"))


def tar(mode: str) -> bytes:
    """A tar archive with the trace in it."""
    packed, member = io.BytesIO(), tarfile.TarInfo("trace.json")
    member.size = len(PLAIN)
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        archive.addfile(member, io.BytesIO(PLAIN))
    return packed.getvalue()


def message(error: InputError) -> str:
    return f"{error.what} | {error.why} | {error.hint}"


@pytest.mark.parametrize("word", [b"inf", b"-inf", b"Infinity", b"-Infinity", b"NaN", b"nan"])
def test_bare_infinity_is_nothing(word: bytes) -> None:
    text = PLAIN.replace(b"0.005208333333333333", word)
    assert text != PLAIN
    trace = parse(text, name="x")
    assert trace.caveats == (
        "the file is not valid JSON: infinite values and NaN were left out (1)",
    )
    assert content(trace) | {"caveats": ()} == WHOLE


def test_an_infinite_time_leaves_out_its_event_alone() -> None:
    text = re.sub(rb'"dur": 3.000', b'"dur": inf', PLAIN, count=1)
    trace = parse(text, name="x")
    assert len(trace.device) == len(WHOLE["device"]) - 1
    assert "1 event without a duration was left out" in trace.caveats


@pytest.mark.parametrize(
    ("inside", "read_as", "caveats"),
    [
        (b"a \x01\x1f b", "a    b", 1),
        (b"two\nlines\tand a tab", "two lines and a tab", 1),
        (b"caf\xe9", "caf\ufffd", 1),
        (b"cut \xf0\x9f\x98", "cut \ufffd", 1),
        (b"C:\\Users\\me\\x.py(3): f", "C:\\Users\\me\\x.py(3): f", 1),
        (b"C:\\u12 and \\d+", "C:\\u12 and \\d+", 1),
        (b"half \\ud83d of a pair", "half \ufffd of a pair", 1),
        (b"lone \\ude00 tail", "lone \ufffd tail", 1),
        # These are valid: read as they are, with nothing to say.
        (b"a pair \\ud83d\\ude00", "a pair 😀", 0),
        (b"inf, NaN: -Infinity", "inf, NaN: -Infinity", 0),
        (b'q\\"uote \\\\ud800 slash \\/ tab \\t', 'q"uote \\ud800 slash / tab \t', 0),
        (b"\x7f\xc2\x85", "\x7f\x85", 0),
    ],
)
def test_characters_in_names(inside: bytes, read_as: str, caveats: int) -> None:
    trace = parse(PLAIN.replace(b'"gemm"', b'"' + inside + b'"'), name="x")
    assert read_as in trace.names
    assert len(trace.caveats) == caveats
    assert len(trace.device) == len(WHOLE["device"])
    # Mending one place leaves words inside strings elsewhere alone.
    also = parse(
        PLAIN.replace(b'"gemm"', b'"' + inside + b'"').replace(b"0.005208333333333333", b"inf"),
        name="x",
    )
    assert also.names == trace.names


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("inside", [b'f("x")', b'a", b', b"C:\\dir\\"])
def test_quotes_that_nobody_escaped(layout: str, inside: bytes) -> None:
    text = TEXTS[layout].replace(b'"gemm"', b'"' + inside + b'"')
    trace = parse(text, name="x")
    assert inside.decode() in trace.names
    assert len(trace.device) == len(WHOLE["device"])
    assert "texts with quotes that were not escaped were mended (1)" in trace.caveats[-1]


def test_many_names_without_an_end_take_no_longer() -> None:
    size = 400_000
    text = b'"name": "x ' * (size // 11)
    begun = time.perf_counter()
    escape_quotes(text)
    escape_quotes(b'"name": "x"' + b" " * size)
    # Tried from each beginning to the text's end, they take over a minute.
    assert time.perf_counter() - begun < 10


def test_a_text_of_escaped_quotes_without_an_end_takes_no_longer() -> None:
    text = PLAIN[: PLAIN.rindex(b'"name"')] + b'"name": "' + b'\\"' * 500_000
    begun = time.perf_counter()
    assert "could not be read" in " ".join(parse(text, name="x").caveats)
    # Tried from each of the quotes to the text's end, it takes hours.
    assert time.perf_counter() - begun < 10


@pytest.mark.parametrize("before", [b"", PLAIN[: PLAIN.rindex(b"},\n  {")]])
def test_what_is_too_large_to_mend_takes_little_time_and_memory(before: bytes) -> None:
    text = before + b'"' * (LARGEST_BYTES + LARGEST_BYTES // 4)
    tracemalloc.start()
    begun = time.perf_counter()
    try:
        if before:
            assert "could not be read" in " ".join(parse(text, name="x").caveats)
        else:
            with pytest.raises(InputError, match="is no trace that can be read"):
                parse(text, name="x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Mended, quotes alone take 30 times their size and minutes.
    assert time.perf_counter() - begun < 20
    assert peak < 8 * len(text)


def test_a_cut_before_the_first_device_activity_names_none() -> None:
    head, _, rest = PLAIN.decode().partition('"traceEvents": [')
    events = [part for part in rest.split("\n  {") if '"cpu_op"' in part]
    cut = f'{head}"traceEvents": [\n  {{' + "\n  {".join([*events, *events, events[0][:40]])
    said = " ".join(parse(cut.encode(), name="x").caveats)
    assert "the file ends before" in said
    assert "device activity" not in said


def test_mending_leaves_valid_text_alone() -> None:
    for text in TEXTS.values():
        assert mend(text) == (text, Counter())


@given(value=st.recursive(
    st.none() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
))  # fmt: skip
def test_mending_changes_no_valid_json(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        if re.search(r"\\ud[89a-f]|[\ud800-\udfff]", text):
            continue
        assert mend(text.encode()) == (text.encode(), Counter())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_leading_newlines_and_a_byte_order_mark(layout: str) -> None:
    for head in (b"\n", b"\r\n \t", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"):
        assert content(parse(head + TEXTS[layout], name="x")) == WHOLE


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_of_glog_before_the_trace(layout: str) -> None:
    logged = (
        b"I1128 12:00:00.123456  1234 ActivityProfilerController.cpp:92] Completed Stage: Warm Up\n"
        b"W20261128 12:00:00 a.cpp:3] {x} [y]\n"
    )
    trace = parse(logged + TEXTS[layout], name="x")
    assert content(trace) | {"caveats": ()} == WHOLE
    assert trace.caveats == ("the file is not valid JSON: log lines were left out (2)",)


@pytest.mark.parametrize("trailer", ["checksum", "size"])
def test_a_wrong_checksum_loses_nothing(trailer: str) -> None:
    packed = bytearray(gzip.compress(PLAIN, mtime=0))
    packed[-8 if trailer == "checksum" else -4] ^= 1
    trace = parse(bytes(packed), name="x")
    assert content(trace) | {"caveats": ()} == WHOLE
    (caveat,) = trace.caveats
    assert caveat.endswith("to its end, but some of it may not be what was packed")


@pytest.mark.parametrize("faster", [True, False])
def test_all_that_lies_before_damage_comes_out(
    monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    if not faster:
        monkeypatch.setattr(byte_source, "_decompressor", zlib.decompressobj)
        monkeypatch.setattr(byte_source, "_DAMAGED", (zlib.error,))
    text = random.Random(0).randbytes(3 << 20)
    first = gzip.compress(text, compresslevel=1, mtime=0)
    # A second member of which the first block is of no kind that there is.
    whole = first + gzip.compress(PLAIN, mtime=0)[:10] + b"\x07" + bytes(100)
    source = byte_source.source_of(whole)
    out = bytearray(len(text) + 1)
    at = 0
    while count := source.readinto(memoryview(out)[at:]):
        at += count
    source.close()
    assert bytes(out[:at]) == text
    assert source.damage.endswith(f"the last 101 of {len(whole):,} packed bytes were not read")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "`trace.json` is empty"),
        (b" \n\t ", "is empty"),
        (b"[]", "holds no events of torch.profiler"),
        (b'{"traceEvents": []}', "holds no events of torch.profiler"),
        (b'{"traceEvents": [{"ph": "M", "name": "x"}]}', "it has 1 entry, and none is"),
        (b'{"hello": 1}', "is JSON, but no torch.profiler trace"),
        (b'{"traceEvents": {"a": 1}}', "is JSON, but no torch.profiler trace"),
        (b"[1, 2]", "is JSON, but no torch.profiler trace"),
        (b'"text"', "is JSON, but no torch.profiler trace"),
        (b"12", "is JSON, but no torch.profiler trace"),
        (b"null", "is JSON, but no torch.profiler trace"),
        (b"import torch\nprint(1)\n", "it is not valid JSON"),
        (b"\x00" * 100, "it is not valid JSON"),
        (bytes(range(256)) * 4, "it is not valid JSON"),
        (b'{"traceEvents": [{"args":' + b"[" * 200_000, "it is not valid JSON"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (b"SQLite format 3\x00rest", "is damaged or cut short"),
        (b"\x7fELFrest", "is a program"),
        (b"\x28\xb5\x2f\xfdrest", "is a zstd file"),
        (b"7z\xbc\xaf\x27\x1crest", "is a 7z archive"),
        (
            lzma.compress(PLAIN),
            "is an xz file, no trace that can be read |  | unpack it first: `xz",
        ),
        (bz2.compress(PLAIN), "`bzip2 -dc trace.json > readable.json`"),
        (gzip.compress(gzip.compress(PLAIN)), "is a gzip file packed with gzip"),
        (gzip.compress(lzma.compress(PLAIN)), "`gzip -dc trace.json | xz -dc > readable.json`"),
        (tar("w"), "is a tar archive, no trace"),
        (tar("w:gz"), "is a tar archive packed with gzip"),
        ("\ufeff".encode("utf-16-le") + TEXT.encode("utf-16-le"), "is text in UTF-16LE"),
        ("\ufeff".encode("utf-16-be") + TEXT.encode("utf-16-be"), "`iconv -f UTF-16BE -t UTF-8 "),
        (TEXT.encode("utf-16-le"), "is text in UTF-16LE"),
        (TEXT.encode("utf-16-be"), "is text in UTF-16BE"),
        ("\ufeff".encode("utf-32-le") + TEXT.encode("utf-32-le"), "is text in UTF-32LE"),
        (TEXT.encode("utf-32-be"), "is text in UTF-32BE"),
        (gzip.compress(TEXT.encode("utf-16-le")), "`gzip -dc trace.json | iconv -f UTF-16LE"),
        (b"\x1f\x8b", "cannot be unpacked"),
        (gzip.compress(PLAIN, mtime=0)[:30], "cut short"),
        (
            gzip.compress(PLAIN, mtime=0)[:20] + b"\xff" * 50 + gzip.compress(PLAIN, mtime=0)[70:],
            "damaged",
        ),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(b"no json", mtime=0), "it is not valid JSON"),
    ],
    # Not the bytes: gzip's hold the second in which they were packed, and two workers must agree.
    ids=lambda value: "bytes" if isinstance(value, bytes) else value,
)
def test_what_is_no_trace_says_so(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_bytes(tmp_path, data)
    assert says in message(caught.value)
    # A user's file is named without the folders that led to it.
    assert str(tmp_path) not in message(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file `.*nowhere\.json`"):
        read_trace(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="is a folder"):
        read_trace(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(PLAIN)
    path.chmod(0)
    with pytest.raises(InputError, match="cannot read"):
        read_trace(path)


def analyse(data: bytes, folder: Path) -> None:
    """Read and analyse bytes; the only exceptions that may escape are ours."""
    try:
        trace = read_bytes(folder, data)
    except DecodeprofError:
        return
    steps_of(trace)
    for device in set(trace.device.device.tolist()):
        mine = trace.device.device == device
        span = int(trace.device.end_ns[mine].max() - trace.device.start_ns[mine].min())
        assert (
            gaps_of(trace, device).busy.total_ns + sum(causes_of(trace, device).values()) == span
            or (trace.device.end_ns == trace.device.start_ns).any()
        )


@pytest.mark.parametrize("every", [2, 5])
@pytest.mark.parametrize("dur", [-1, None, "NaN"])
def test_kernels_without_a_time_are_no_idle_time(tmp_path: Path, dur: object, every: int) -> None:
    document = json.loads(kineto(decode_loop().build(), "one_line"))
    kernels = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
    for event in kernels[::every]:
        event["dur"] = dur
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document).replace('"NaN"', "NaN"))
    diagnosis = analyze_path(path).diagnosis
    assert diagnosis.verdict.bound_by == "unknown"
    assert diagnosis.step is diagnosis.prefill is None
    assert re.search(
        r"busy at least \d+ %: .* have no kernel in the recording", diagnosis.verdict.sentence
    )
    assert any("were left out" in caveat for caveat in diagnosis.caveats)


@settings(max_examples=200,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_no_damage_raises_anything_else(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(TEXTS[data.draw(st.sampled_from(LAYOUTS))])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        how = data.draw(st.sampled_from(("change", "cut out", "insert", "repeat")))
        if how == "change":
            text[at] = data.draw(st.integers(0, 255))
        elif how == "cut out":
            del text[at : at + data.draw(st.integers(1, 40))]
        elif how == "insert":
            text[at:at] = data.draw(st.binary(max_size=6) | st.sampled_from(
                [b"NaN", b"-", b"1e999", b"null", b'"', b"\\", b"{", b"]", b"\x00", b"99999999999"]
            ))  # fmt: skip
        else:
            text[at:at] = text[at : at + data.draw(st.integers(1, 400))]
        if not text:
            return
    analyse(bytes(text), tmp_path)


@settings(max_examples=100,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_no_odd_value_raises_anything_else(tmp_path: Path, data: st.DataObject) -> None:
    """Valid JSON whose values are anything at all."""
    file = json.loads(TEXTS["one_line"])
    odd = st.sampled_from([
        None, True, "", "²", "--1", "stream ", -1, 2**31, 2**62, 2**63, -(2**63), 2**64, 1e300,
        -0.0, 0.5, "1e400", [], [[]], [[[1]], 2], {}, {"a": 1}, "x" * 50, "-" * 3,
        "decodeprof.forward q=² m=", "decodeprof.replay", "decodeprof.", "ProfilerStep#²",
        "step[DECODE", "execute_context_1()_generation_9(",
    ])  # fmt: skip
    for _ in range(data.draw(st.integers(1, 5))):
        event = data.draw(st.sampled_from(file["traceEvents"]))
        args = event.get("args") or {}
        inside = data.draw(st.booleans()) and isinstance(args, dict) and bool(args)
        place = args if inside else event
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(odd)
    analyse(json.dumps(file).encode(), tmp_path)
