"""Speculative decoding as measured: when do fewer rounds and fewer launches work together?"""

from __future__ import annotations

import json
import statistics
import textwrap
from pathlib import Path
from typing import Any

from decodeprof import units

Line = dict[str, Any]
WIDTH = 100
HEAD = (
    "rows  draft  kept            launched         as one graph   graph  draft    both  "
    "both ÷ product"
)
UNDRAFTED = 0.02
"""The damping under which plain decoding was measured; it does not depend on it."""


def table(path: Path) -> str:
    """The text of the rounds in a file."""
    about, *lines = [json.loads(text) for text in path.read_text().splitlines()]
    found = {(x["damping"], x["rows"], x["draft_tokens"], x["graph"]): x for x in lines}
    about_it = (
        f"Speculative decoding of the 0.6B shape on one {about['device']}: the draft is the "
        f"model's first {about['draft_layers']} layers. Tokens a second are of all rows; a round "
        "is timed without a profiler, launched kernel by kernel and as one graph. kept: drafted "
        "tokens kept a round. graph: what it gains over launching the same; draft: over none, "
        "launched; both: over plain launched decoding. both ÷ product: 1 where the two gains "
        "multiply."
    )
    said = [*textwrap.wrap(about_it, WIDTH), "", HEAD]
    for damping, rows, draft, graph in found:
        if graph or (damping, rows, draft, True) not in found:
            continue
        said.append(_row(found, damping=damping, rows=rows, draft=draft))
    return "\n".join(said) + "\n"


def _row(found: dict[tuple[Any, ...], Line], *, damping: float, rows: int, draft: int) -> str:
    launched, graph = (found[damping, rows, draft, mode] for mode in (False, True))
    plain = _plain(found, rows)
    cells = f"{rows:>4}  {draft:>5}  {launched['kept_mean']:>4.1f}  "
    cells += "  ".join(_told(line) for line in (launched, graph))
    of_graph = graph["tokens_per_s"] / launched["tokens_per_s"]
    cells += f"  {of_graph:>4.1f} ×"
    if plain is None or draft == 0:
        return cells
    base = plain["tokens_per_s"]
    alone = found[UNDRAFTED, rows, 0, True]["tokens_per_s"] / base
    of_draft, both = launched["tokens_per_s"] / base, graph["tokens_per_s"] / base
    return f"{cells}  {of_draft:>3.1f} ×  {both:>4.1f} ×  {both / (alone * of_draft):>14.2f}"


def _plain(found: dict[tuple[Any, ...], Line], rows: int) -> Line | None:
    """Plain greedy decoding, launched; None where it, or its graph, was not measured."""
    if (UNDRAFTED, rows, 0, True) not in found:
        return None
    return found.get((UNDRAFTED, rows, 0, False))


def _told(line: Line) -> str:
    step = units.time(statistics.median(line["round_ns"]))
    return f"{step:>8}  {line['tokens_per_s']:>6,.0f}/s"
