"""What is said of a target that ran as if there were a GPU?"""

from __future__ import annotations

from decodeprof.analysis.hazards import device_operations, graph_hazards
from decodeprof.model.lint import LintReport, LintRun

CANNOT_SEE = (
    "operations in threads that Python's `threading` did not start",
    "CUDA extensions and Triton kernels: what does not go through PyTorch's operators",
    "the allocator: cudaMalloc, cudaFree and running out of memory",
    "time: whether a wait costs anything is what `decodeprof diagnose` measures on a GPU",
    "driver calls, events queried by libraries, collectives between GPUs",
    "code that torch.compile or a library generates for a GPU alone",
)


def lint_report(run: LintRun) -> LintReport:
    """Compare the two recorded steps of a run, and gather everything that is predicted."""
    record = run.record
    return LintReport(
        target=run.target,
        decode_steps=run.decode_steps,
        on_device=run.on_device,
        syncs=run.syncs,
        copies=run.copies,
        hazards=None if record is None else graph_hazards(record),
        why_no_hazards=run.why_no_record,
        replays_per_step=run.replays_per_step,
        ops_per_step=None if record is None else device_operations(record.second),
        caveats=run.caveats,
        cannot_see=list(CANNOT_SEE),
        stopped=run.stopped,
    )
