"""Which copies between host and device do the decode steps make, and which of them cost nothing?"""

from __future__ import annotations

from decodeprof.analysis.copies import HostCopies, host_copies
from decodeprof.diagnosis import telling
from decodeprof.diagnosis.judging import LOW_SHARE, Case
from decodeprof.model.diagnosis import Where

# Below this share of the step a copy's wait is said with the harmless ones, and not again.
LEAST_SHARE = LOW_SHARE


def copies_of(case: Case, direction: str) -> list[HostCopies]:
    """The copies of the decode steps in one direction (`copies.TO_HOST` or `TO_DEVICE`)."""
    figures = case.evidence.decode
    if figures is None:
        return []
    found = host_copies(
        case.evidence.trace,
        case.evidence.steps,
        rows=figures.rows,
        nesting=case.evidence.nesting,
        sites=case.evidence.decode_sites,
    )
    return [copy for copy in found if copy.direction == direction]


def is_harmless(case: Case, copy: HostCopies) -> bool:
    """Whether replay says that the copy's wait costs next to nothing; False: not known."""
    if copy.site is None or case.predicted.outcomes is None:
        return False
    exposed = telling.decode_sites(case)[copy.site].exposed_ns
    return exposed is not None and telling.share_of_step(case, exposed) < LEAST_SHARE


def places(case: Case, copies: list[HostCopies]) -> list[Where]:
    """The source lines that wait for these copies."""
    sites = telling.decode_sites(case)
    return [
        where
        for copy in copies
        if copy.site is not None
        for where in telling.where_of(sites[copy.site])
    ]
