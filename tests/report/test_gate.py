"""What a gate found, for people and for GitHub; text from a trace breaks neither."""

from __future__ import annotations

from decodeprof.diagnosis.check import check
from decodeprof.model.gate import Baseline, Limits
from decodeprof.report.gate import gate_view, github_lines
from decodeprof.report.terminal import text
from tests.report.diagnoses import cpu_run, full, sync_site

EMPTY = Baseline(decodeprof_baseline=1, syncs=[])


def test_the_report() -> None:
    limits = Limits(max_syncs=1, max_kernels=3_000, min_mbu=0.5)
    assert text(
        gate_view(check(full(syncs=[sync_site(calls_per_step=2.0)]), limits)), width=80
    ) == (
        "decodeprof check  decodeprof-1\n"
        "\n"
        "The gate fails.\n"
        "\n"
        "Per decode step\n"
        "  limit        allowed  found\n"
        "  max-syncs          1      2  ✗ failed\n"
        "    2 blocking calls a step, with what only a detector's pass held\n"
        "  max-kernels    3,000  2,508  ✓ held\n"
        "    2,508 kernels a step, over 4 steps\n"
        "  min-mbu         50 %  0.6 %  ✗ failed\n"
        "    MBU 0.6 %: 1.19 GB that a step must move, in 49.7 ms, at 4.27 TB/s (read,\n"
        "    measured)\n"
        "\n"
        "Blocking calls\n"
        "  my_script.py:41 in generate\n"
        "    next_token = int(logits.argmax(-1))\n"
        "    2 calls a decode step, aten::_local_scalar_dense, cudaStreamSynchronize\n"
    )


def test_github_gets_one_command_for_each_answer_and_each_site() -> None:
    checked = check(full(), Limits(max_syncs=1, max_kernels=3_000))
    lines = github_lines(checked, locate=lambda site: ("src/my_script.py", site.line or 0))
    assert lines.splitlines() == [
        "::error title=decodeprof::max-syncs failed: 1.06 blocking calls a step, with what only a "
        "detector's pass held, allowed 1",
        "::error file=src/my_script.py,line=41,title=decodeprof::blocking call (1 call a decode "
        "step, aten::_local_scalar_dense, cudaStreamSynchronize) at my_script.py:41: "
        "next_token = int(logits.argmax(-1))",
        "::error file=src/my_script.py,line=312,title=decodeprof::blocking call (0.0625 calls a "
        "decode step, aten::_local_scalar_dense, cudaStreamSynchronize) at "
        "transformers/masking_utils.py:312: if padding_mask is not None and padding_mask.all():",
        "::notice title=decodeprof::max-kernels held: 2,508 kernels a step, over 4 steps",
    ]


def test_what_could_not_be_told_is_a_warning_with_what_to_capture() -> None:
    lines = github_lines(check(cpu_run(), Limits(max_syncs=0)), locate=lambda _: None)
    assert lines == (
        "::warning title=decodeprof::max-syncs: could not tell: nothing ran on a GPU, so nothing "
        "was counted. record the loop with `decodeprof diagnose` on a machine with a GPU\n"
    )


def test_a_hostile_site_begins_no_command_of_its_own() -> None:
    site = sync_site(file="a\n::error::b,c:d.py", code="x = 100 % y\r\n::set-output name=a::b")
    checked = check(full(syncs=[site]), Limits(), baseline=EMPTY)
    lines = github_lines(checked, locate=lambda site: (site.file or "", 3))
    assert len(lines.splitlines()) == 2
    command = lines.splitlines()[1]
    assert command.startswith("::error file=a %3A%3Aerror%3A%3Ab%2Cc%3Ad.py,line=3,title=")
    assert "100 %25 y" in command
