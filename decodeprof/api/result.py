"""What do `decodeprof.analyze` and `decodeprof.diagnose` return?"""

from __future__ import annotations

import html
import typing
from pathlib import Path
from typing import Any

import msgspec

from decodeprof import units
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.pipeline import Analyzed
from decodeprof.errors import DecodeprofError, UsageError
from decodeprof.export.tables import Tables, idle_of, tables_of
from decodeprof.model.diagnosis import Diagnosis

if typing.TYPE_CHECKING:
    import os

_WIDTH = 100
_FRAME_HEIGHT_PX = 900


class Result(Diagnosis, frozen=True, kw_only=True, dict=True):
    """A diagnosis, with the trace that it was made from for tables and timelines.

    It is a `Diagnosis` in every way: its fields are those of diagnosis.json, and it is written as
    the same JSON. A notebook shows it as the HTML report.
    """

    @classmethod
    def of(
        cls, analyzed: Analyzed, *, recording: Path | None = None, source: Path | None = None
    ) -> typing.Self:
        """Join a diagnosis and what it was made from.

        Args:
            analyzed: both.
            recording: the recording's directory, if it is one.
            source: the trace's file, if it is none.
        """
        fields: dict[str, Any] = {
            name: getattr(analyzed.diagnosis, name) for name in Diagnosis.__struct_fields__
        }
        result = cls(**fields)
        # What is no field is not written to JSON and takes no part in comparisons.
        msgspec.structs.force_setattr(result, "_analyzed", analyzed)
        msgspec.structs.force_setattr(result, "_recording", recording)
        msgspec.structs.force_setattr(result, "_source", recording or source)
        return result

    @property
    def recording(self) -> Path | None:
        """The recording's directory; None: the diagnosis is of a trace from elsewhere."""
        found: Path | None = self.__dict__.get("_recording")
        return found

    @property
    def _evidence(self) -> Evidence | None:
        analyzed: Analyzed | None = self.__dict__.get("_analyzed")
        return analyzed.evidence if analyzed is not None else None

    def tables(self) -> Tables:
        """Steps, gaps, syncs, kernels, what-ifs and findings as pandas DataFrames.

        Raises:
            DecodeprofError: pandas is not installed.
        """
        evidence = self._evidence
        return tables_of(self, idle_of(evidence) if evidence is not None else None)

    def write_perfetto(
        self,
        path: str | os.PathLike[str],
        *,
        steps: slice | None = None,
        force: bool = False,
    ) -> Path:
        """Write a timeline for ui.perfetto.dev.

        Args:
            path: the file.
            steps: of which steps, as ``slice(3, 6)``; None: the whole trace.
            force: replace a file that exists.

        Returns:
            The file.

        Raises:
            UsageError: the file exists, and may not be replaced; it is what the diagnosis was made
                from; or the slice leaves steps out.
            InputError: it cannot be written.
            DecodeprofError: there are no such steps, the package `perfetto` is missing, or the
                diagnosis was read from JSON and has no trace.
        """
        from decodeprof.export.files import check_source_kept
        from decodeprof.export.perfetto.file import write_timeline_file

        evidence = self._evidence
        if evidence is None:
            raise DecodeprofError(
                "this diagnosis has no trace",
                why="a timeline is drawn from the trace itself",
                hint="`decodeprof.analyze(path)` reads it again",
            )
        if steps is not None and steps.step not in (None, 1):
            raise UsageError(
                f"a timeline is of steps in a row, not of every {steps.step}",
                hint="slice(3, 6) are the steps 3, 4 and 5",
            )
        source: Path | None = self.__dict__.get("_source")
        if source is not None:
            check_source_kept(Path(path), source)
        asked = (steps.start, steps.stop) if steps is not None else None
        write_timeline_file(evidence, Path(path), steps=asked, force=force)
        return Path(path)

    def __repr__(self) -> str:
        """The verdict, and how much more there is."""
        found = units.counted(len(self.findings), "finding")
        return f"<{self.source.name}: {self.verdict.sentence} {found}>"

    def _repr_html_(self) -> str:
        """The HTML report in a frame of its own; without a trace to draw, the report as text."""
        analyzed: Analyzed | None = self.__dict__.get("_analyzed")
        if analyzed is None:
            from decodeprof.report.terminal import text
            from decodeprof.report.view import view

            return f"<pre>{html.escape(text(view(self), width=_WIDTH))}</pre>"
        # The page has its own styles and its own policy against requests: a frame keeps both.
        return (
            f'<iframe srcdoc="{html.escape(page_of(analyzed))}" sandbox="allow-scripts" '
            f'title="decodeprof" style="width: 100%; height: {_FRAME_HEIGHT_PX}px; border: 0">'
            "</iframe>"
        )


def page_of(analyzed: Analyzed) -> str:
    """The HTML report, one page that makes no request."""
    from decodeprof.diagnosis.charts import charts_of
    from decodeprof.report.html import html as page

    return page(analyzed.diagnosis, charts_of(analyzed.evidence, analyzed.diagnosis))
