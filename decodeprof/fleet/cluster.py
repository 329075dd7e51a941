"""Where does the work run? On workers of this machine, or on a Dask cluster that is there."""

from __future__ import annotations

import logging
import os
import signal
import typing
from collections.abc import Iterator
from contextlib import contextmanager

from decodeprof import __version__, units
from decodeprof.errors import DecodeprofError
from decodeprof.fleet.work import installed_version

if typing.TYPE_CHECKING:
    from distributed import Client

# A scheduler on the same network answers in milliseconds; one that starts its first worker on a
# busy machine may take a quarter of a minute.
_CONNECT_S = 15
_WORKERS_S = 60


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def cluster(*, scheduler: str | None, workers: int | None) -> Iterator[Client]:
    """A client of a cluster, for the length of the block.

    Args:
        scheduler: address of a scheduler that runs; None: workers of this machine's own.
        workers: how many of those; None: one for each processor.

    Raises:
        DecodeprofError: the scheduler does not answer, has no workers, or they cannot do it.
    """
    from distributed import Client, LocalCluster, WorkerPlugin

    class Undisturbed(WorkerPlugin):
        """Ctrl-C is for the process that started the workers: it ends them, in good order."""

        def setup(self, worker: object) -> None:  # noqa: ARG002
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    # What becomes of a worker is told in the summary; its tracebacks help nobody.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if scheduler is None:
        # One thread each: the analysis holds the interpreter's lock most of the time.
        with (
            LocalCluster(
                n_workers=workers or processors(),
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as local,
            Client(local) as client,
        ):
            client.register_plugin(Undisturbed(), name="decodeprof-undisturbed")
            yield client
        return
    try:
        client = Client(scheduler, timeout=_CONNECT_S, name="decodeprof")
    except (OSError, ValueError) as error:
        raise DecodeprofError(
            f"no Dask scheduler answers at `{scheduler}`",
            why=str(error) or type(error).__name__,
            hint="`dask scheduler` prints the address to give",
        ) from None
    with client:
        _check_workers(client, scheduler)
        yield client


def _check_workers(client: Client, scheduler: str) -> None:
    """Raise where a cluster has no worker, or one that would not do the same as this process."""
    try:
        client.wait_for_workers(1, timeout=_WORKERS_S)
    except TimeoutError:
        raise DecodeprofError(
            f"the Dask scheduler at `{scheduler}` has no workers",
            why=f"none came within {_WORKERS_S} s",
            hint=f"start some: `dask worker {scheduler}`",
        ) from None
    found = client.run(installed_version, on_error="return")
    wrong = {worker: said for worker, said in sorted(found.items()) if said != __version__}
    if wrong:
        worker, said = next(iter(wrong.items()))
        raise DecodeprofError(
            f"{len(wrong)} of {units.counted(len(found), 'Dask worker')} cannot do it",
            why=f"{worker} has {said if isinstance(said, str) else repr(said)}; "
            f"here is decodeprof {__version__}",
            hint="install the same decodeprof[fleet] there",
        )
