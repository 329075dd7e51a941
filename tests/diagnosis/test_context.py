"""What a diagnosis says of the recording that it was made from."""

from __future__ import annotations

import pytest

from decodeprof.diagnosis.context import about_of
from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.load import Loaded
from decodeprof.model.trace import Trace
from decodeprof.recording import Target
from tests.diagnosis.cases import recording


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, ""),
        ({"arguments": {"n": "4"}, "given": ["n=4"]}, " --arg n=4"),
        ({"given": ['prompt="a b"'], "setup": "build"}, " --arg 'prompt=\"a b\"' --setup build"),
        ({"arguments": {"model": "Tiny"}, "setup": "inputs"}, " --setup inputs"),
        # Recordings of an older version do not hold how arguments were given.
        ({"arguments": {"n": "4"}}, " --arg …"),
        ({"new_tokens": 8, "new_tokens_from": "--new-tokens"}, " --new-tokens 8"),
        ({"new_tokens": 8, "new_tokens_from": "yields"}, ""),
    ],
)
def test_the_command_that_records_it_again(fields: dict[str, object], told: str) -> None:
    target = Target(spec="sub/my script.py:go", kind="function", **fields)  # type: ignore[arg-type]
    loaded = Loaded(
        trace=Trace.nothing("trace"), recording=recording(target=target), name="synthetic"
    )
    command = about_of(gather(loaded)).command
    assert command == f"decodeprof diagnose 'sub/my script.py:go'{told}"
