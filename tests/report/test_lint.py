"""The three answers of lint, as a person reads them."""

import msgspec

from decodeprof.model.lint import Hazard, LintReport, PredictedCopy, PredictedSync
from decodeprof.model.ops import Place
from decodeprof.report.lint import lint_view
from decodeprof.report.terminal import text

PLACE = Place(
    file="engine/loop.py",
    line=7,
    function="step",
    code="token = int(logits.argmax())",
    stack=["my_script.py:3 generate", "engine/loop.py:7 step"],
)
SYNC = PredictedSync(
    place=PLACE,
    op="aten::_local_scalar_dense",
    reason="the host reads a value",
    in_prefill=1,
    in_decode=6,
    in_last=2,
    per_step=1.0,
)
HAZARD = Hazard(
    kind="scalar",
    severity="wrong",
    place=PLACE,
    op="aten::add.Tensor",
    summary="add is given 8 → 9",
    why="baked in",
    change="keep it in a tensor",
    count=3,
    inside="forward",
)


def shown(**fields: object) -> str:
    known: dict[str, object] = {"target": "my_script.py:generate", "decode_steps": 6}
    report = LintReport(**{**known, "on_device": True, **fields})  # type: ignore[arg-type]
    return text(lint_view(report), width=80)


def test_nothing_is_cut_short() -> None:
    place = Place(
        file="transformers/models/some_model/modeling_some_model.py",
        line=12345,
        function="SomeModelForCausalLM.prepare_inputs",
        code="x = " + " + ".join(f"number_{index}" for index in range(20)),
        stack=["my_script.py:3 generate", "transformers/generation/utils.py:1 generate"],
    )
    sync = msgspec.structs.replace(SYNC, place=place, op="torch.cuda.Stream.synchronize")
    summary = "cat: a shape grows, (16, 32, 1111, 128) → (16, 32, 1112, 128)"
    hazard = msgspec.structs.replace(HAZARD, place=place, summary=summary)
    told = shown(syncs=[sync], hazards=[hazard])
    assert "…" not in told
    assert max(map(len, told.splitlines())) <= 80
    assert "torch.cuda.Stream.synchronize" in told
    words = " ".join(told.split())
    assert f"{place.file}:12345 in SomeModelForCausalLM.prepare_inputs" in words
    assert f"{place.file}:12345 in the forward: {summary}" in words
    assert "number_0" in told
    assert "number_19" in told


def test_found() -> None:
    copy = PredictedCopy(
        place=PLACE,
        direction="host to device",
        non_blocking=True,
        in_prefill=0,
        in_decode=6,
        in_last=1,
        per_step=1.0,
        bytes_per_copy=4096,
    )
    told = shown(syncs=[SYNC], copies=[copy], hazards=[HAZARD])
    words = " ".join(told.split())
    assert "1 wait for the device per decode step; 1 line would replay wrongly." in words
    assert "engine/loop.py:7" in told
    assert "called from my_script.py:3 generate" in told
    assert "add is given 8 → 9 (and 2 more operations here)" in words
    assert "change: keep it in a tensor" in told
    assert "4,096" in told


def test_clear_and_unknown_differ() -> None:
    clear = shown(hazards=[])
    unknown = shown(hazards=None, why_no_hazards="only one step was seen")
    assert "nothing stands against a CUDA graph" in " ".join(clear.split())
    assert "only one step was seen" not in clear
    assert "whether a CUDA graph fits the step is unknown" in " ".join(unknown.split())
    assert "only one step was seen" in unknown


def test_a_graph_that_is_there_already_and_one_under_conditions() -> None:
    replayed = shown(hazards=None, replays_per_step=1.0, why_no_hazards="already")
    assert "a step replays 1 CUDA graph already." in " ".join(replayed.split())
    cost = msgspec.structs.replace(HAZARD, kind="generator", severity="cost")
    told = " ".join(shown(hazards=[cost]).split())
    assert "a CUDA graph of the step is possible, under conditions that are listed." in told


def test_a_target_on_the_host_is_told_what_to_do() -> None:
    told = shown(on_device=False, hazards=[])
    assert "Nothing to predict" in told
    assert "--on-cuda" in told


def test_text_of_a_script_changes_no_structure() -> None:
    hostile = Place(file="a.py", line=1, function="f", code="[red]x\x1b[31m\u202e</script>")
    told = shown(syncs=[SYNC.__class__(**{**fields(SYNC), "place": hostile})], hazards=[])
    assert "\x1b" not in told
    assert "[red]x" in told


def fields(sync: PredictedSync) -> dict[str, object]:
    return {name: getattr(sync, name) for name in sync.__struct_fields__}
