"""Globs to a table: which traces are new, who analyses them, and when are rows written?"""

from __future__ import annotations

import time
import typing
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice

from decodeprof.fleet.rows import Row
from decodeprof.fleet.schema import SCHEMA_VERSION
from decodeprof.fleet.sources import Source
from decodeprof.fleet.table import Done, Table, still_failed
from decodeprof.fleet.work import Outcome, error_outcome, roll_up
from decodeprof.model.rollup import Progress, Summary

if typing.TYPE_CHECKING:
    from distributed import Client, Future

# Few enough files for readers of the table, and no more than this is done again after a crash.
BATCH_TRACES = 256
FLUSH_S = 30.0
# Enough that no worker waits for the driver; a million tasks at once would be the scheduler's load.
_TASKS_PER_THREAD = 4


_MOST_ERRORS = 20


@dataclass
class _Gathered:
    """What came back, and is not written yet."""

    table: Table
    failed: list[Row]
    rows: list[Row] = field(default_factory=list)
    hashes: set[str] = field(default_factory=set)
    traces: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    bound_by: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    _written_at: float = field(default_factory=time.monotonic)

    def take(self, source: Source, outcome: Outcome) -> None:
        """Count an outcome; the same bytes under a second name are no second trace."""
        if outcome.status == "known" or outcome.content_hash in self.hashes:
            self.counts["same"] += 1
            return
        self.counts[outcome.status] += 1
        if outcome.status != "ok" and len(self.errors) < _MOST_ERRORS:
            row = outcome.rows[0]
            why = f": {'; '.join(row['why'].splitlines())}" if row["why"] else ""
            self.errors.append(f"{source.url}: {row['error']}{why}")
        if outcome.status == "failed":
            self.failed += outcome.rows
        else:
            assert outcome.content_hash is not None
            self.hashes.add(outcome.content_hash)
            self.rows += outcome.rows
            self.counts["steps"] += len(outcome.rows) - 1
        if outcome.status == "ok":
            self.bound_by[outcome.rows[0]["bound_by"]] += 1
        self.traces += 1
        if self.traces >= BATCH_TRACES or time.monotonic() - self._written_at > FLUSH_S:
            self.write()

    def write(self) -> None:
        """Write what came since the last time."""
        if self.rows:
            self.table.add(self.rows)
        self.table.put_failed(self.failed)
        self.rows, self.traces, self._written_at = [], 0, time.monotonic()


def roll_up_all(
    sources: Sequence[Source],
    table: Table,
    *,
    done: Done,
    cluster: Callable[[], AbstractContextManager[Client]],
    told: Callable[[Progress], None] = lambda _: None,
) -> Summary:
    """Analyse on a cluster what a table does not hold yet, and add it.

    A worker that dies takes nothing with it: its traces are given to another one. What came back
    is written every few hundred traces, and at the end however it comes.

    Args:
        sources: the traces.
        table: where the rows go.
        done: what is in it.
        cluster: gives a client of one; not called where nothing is new.
        told: called as outcomes come.

    Raises:
        InputError: the table cannot be written.
    """
    begun = time.monotonic()
    todo = [s for s in sources if (s.url, s.fingerprint) not in done.seen]
    retried = frozenset(source.url for source in todo)
    gathered = _Gathered(table, still_failed(done.failed, retried))
    if todo:
        table.check_writable()
    # Rows of what is tried again go first: a row that is missing is made again, one that is there
    # twice is counted twice.
    table.put_failed(gathered.failed)
    if todo:
        with cluster() as client:
            try:
                for number, (source, outcome) in enumerate(_outcomes(client, todo, done), start=1):
                    gathered.take(source, outcome)
                    told(Progress(done=number, of=len(todo)))
            finally:
                gathered.write()
    counts = gathered.counts
    return Summary(
        table_schema_version=SCHEMA_VERSION,
        out=table.url,
        found=len(sources),
        already=len(sources) - len(todo),
        same=counts["same"],
        ok=counts["ok"],
        bad=counts["bad"],
        failed=counts["failed"],
        steps=counts["steps"],
        bound_by=dict(gathered.bound_by.most_common()),
        errors=gathered.errors,
        seconds=round(time.monotonic() - begun, 3),
    )


def _outcomes(
    client: Client, todo: Sequence[Source], done: Done
) -> Iterator[tuple[Source, Outcome]]:
    """Each trace's outcome as it comes; only so many are given out at a time."""
    from distributed import as_completed

    waiting = iter(todo)
    of: dict[str, Source] = {}

    def submit(source: Source) -> Future[Outcome]:
        future: Future[Outcome] = client.submit(
            roll_up, source, done.known(source), key=f"rollup-{uuid.uuid4().hex}", pure=False
        )
        of[str(future.key)] = source
        return future

    threads = max(sum(client.nthreads().values()), 1)
    first = [submit(source) for source in islice(waiting, _TASKS_PER_THREAD * threads)]
    running = as_completed(first)
    del first
    for future in running:
        source = of.pop(str(future.key))
        yield source, _outcome(source, future)
        future.release()
        following = next(waiting, None)
        if following is not None:
            running.add(submit(following))


def _outcome(source: Source, future: Future[Outcome]) -> Outcome:
    """What a task gave; its error where even its worker died, several times over."""
    error = future.exception()
    if error is not None:
        return error_outcome(
            source, None, status="failed", what=type(error).__name__, why=str(error)
        )
    return future.result()
