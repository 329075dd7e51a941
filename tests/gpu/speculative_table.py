"""Speculative decoding as measured: when do fewer rounds and fewer launches work together?"""

from __future__ import annotations

import json
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decodeprof import units

Line = dict[str, Any]
WIDTH = 100
HEAD = (
    "rows  draft  guess  kept   same          launched      as one graph  ×graph  ×draft   ×both"
    "  ratio"
)
UNDRAFTED = 0.02
"""The damping under which plain decoding was measured; it does not depend on it."""
SLOW = 1.25
"""A launched round that takes this much longer than the same launches took beside it tells of a
slow host, and nothing of the draft."""


@dataclass(frozen=True)
class Gain:
    """One way to draft, launched and as one graph. Rates are tokens a second of all rows."""

    damping: float
    rows: int
    draft: int
    kept: float
    same: str
    launched: str
    graphed: str
    slow: bool
    """Whether the host was slow as it was launched: the gains then rest on a faster launch."""
    of_graph: float
    of_draft: float | None = None
    """Over plain decoding, launched; None: that was not measured."""
    both: float | None = None
    alone: float | None = None
    """What a graph gains without a draft."""

    @property
    def guess(self) -> str:
        """How the draft guesses."""
        if self.draft == 0:
            return "-"
        return "good" if self.damping == UNDRAFTED else "bad"

    @property
    def share(self) -> float | None:
        """Of the product of both gains: what they gain together."""
        if self.both is None or self.alone is None or self.of_draft is None:
            return None
        return self.both / (self.alone * self.of_draft)


def table(path: Path) -> str:
    """The text of the rounds in a file."""
    about, *lines = [json.loads(text) for text in path.read_text().splitlines()]
    found = {(x["damping"], x["rows"], x["draft_tokens"], x["graph"]): x for x in lines}
    gains = [
        _gain(found, damping=damping, rows=rows, draft=draft)
        for damping, rows, draft, graph in found
        if not graph and (damping, rows, draft, True) in found
    ]
    about_it = (
        f"Speculative decoding of the 0.6B shape on one {about['device']}: the draft is the "
        f"model's first {about['draft_layers']} layers. Tokens a second are of all rows; a round "
        "is timed without a profiler, launched kernel by kernel and as one graph. draft: tokens "
        "drafted a round; guess: whether the draft is good or bad at it; kept: drafted tokens kept "
        "a round. same: tokens until the text first differs from the plain one-row loop; in bf16 "
        "another number of rows sums in another order. Gains in tokens a second, ×graph: over "
        "launching the same; ×draft: over none, launched; ×both: over plain launched decoding. "
        "ratio: ×both ÷ the product of ×draft and of ×graph without a draft; 1 where the two gains "
        "multiply."
    )
    said = [*_wrapped(about_it), "", HEAD, *map(_row, gains)]
    for text in _findings(found, gains):
        said += ["", *_wrapped(text)]
    return "\n".join(said) + "\n"


def _wrapped(text: str) -> list[str]:
    # A number and its sign stay on one line.
    lines = textwrap.wrap(text.replace(" ×", "\u00a0×"), WIDTH)
    return [line.replace("\u00a0", " ") for line in lines]


def _gain(found: dict[tuple[Any, ...], Line], *, damping: float, rows: int, draft: int) -> Gain:
    launched, graph = (found[damping, rows, draft, mode] for mode in (False, True))
    slow = _round_ns(launched) > SLOW * _least_ns(found, draft)
    plain = found.get((UNDRAFTED, rows, 0, False)), found.get((UNDRAFTED, rows, 0, True))
    rate = launched["tokens_per_s"]
    if slow:
        rate *= _round_ns(launched) / _least_ns(found, draft)
    known = {
        "damping": damping,
        "rows": rows,
        "draft": draft,
        "kept": launched["kept_mean"],
        "same": f"{launched['same_tokens']}/{launched['compared_tokens']}",
        "launched": _told(launched),
        "graphed": _told(graph),
        "slow": slow,
        "of_graph": graph["tokens_per_s"] / rate,
    }
    if draft == 0 or plain[0] is None or plain[1] is None:
        return Gain(**known)
    base = plain[0]["tokens_per_s"]
    return Gain(
        **known,
        of_draft=rate / base,
        both=graph["tokens_per_s"] / base,
        alone=plain[1]["tokens_per_s"] / base,
    )


def _row(gain: Gain) -> str:
    cells = f"{gain.rows:>4}  {gain.draft:>5}  {gain.guess:<5}  {gain.kept:>4.1f}  {gain.same:>5}"
    cells += f"  {gain.launched}"
    cells += f"{'*' if gain.slow else ' '} {gain.graphed}  {gain.of_graph:>4.1f} ×"
    if gain.of_draft is None or gain.both is None or gain.share is None:
        return cells
    return f"{cells}  {gain.of_draft:>4.1f} ×  {gain.both:>4.1f} ×  {gain.share:>5.2f}"


def _findings(found: dict[tuple[Any, ...], Line], gains: Sequence[Gain]) -> list[str]:
    drafted = [gain for gain in gains if gain.share is not None]
    good = [gain for gain in drafted if gain.damping == UNDRAFTED]
    poor = [gain for gain in drafted if gain.damping != UNDRAFTED]
    said = []
    if good:
        best = {gain.rows: max(g.both or 0 for g in good if g.rows == gain.rows) for gain in good}
        shares = [gain.share or 0 for gain in good]
        named = ", ".join(f"{gain:.1f} × at batch {rows}" for rows, gain in best.items())
        said.append(
            f"Together they reach {named}: {min(shares):.2f} to {max(shares):.2f} of the product "
            "of what each gains alone, so they compound at each batch measured. Launched, a round "
            "takes as long as its launches; as a graph, as long as its small kernels: both go by "
            "their number, which a draft raises by the same factor."
        )
    if poor:
        kept = " and ".join(f"{gain.kept:.1f} of {gain.draft}" for gain in poor)
        alone = " and ".join(f"{gain.of_draft:.2f} ×" for gain in poor)
        lost = " and ".join(f"{(gain.both or 0) / (gain.alone or 1):.2f} ×" for gain in poor)
        said.append(
            f"A draft that guesses badly ({kept} kept) gains nothing by itself, {alone} of the "
            "tokens without it, so the graph's gain has nothing to multiply: with the draft it "
            f"makes {lost} of the tokens that it makes without."
        )
    for gain in gains:
        if gain.slow:
            factor = _round_ns(found[gain.damping, gain.rows, gain.draft, False])
            factor /= _least_ns(found, gain.draft)
            said.append(
                f"* The host was slow: it took {factor:.1f} × what the same launches took with "
                "other rows, and the gains are over those."
            )
    return said


def _least_ns(found: dict[tuple[Any, ...], Line], draft: int) -> float:
    """The shortest launched round with such a draft: rows and guesses change no launch."""
    return min(
        _round_ns(x)
        for (_, _, drafted, graph), x in found.items()
        if drafted == draft and not graph
    )


def _round_ns(line: Line) -> float:
    return statistics.median(line["round_ns"])


def _told(line: Line) -> str:
    return f"{units.time(_round_ns(line)):>7}  {line['tokens_per_s']:>5,.0f}/s"
