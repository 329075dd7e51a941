from __future__ import annotations

import io
import sys

import pytest

from decodeprof.cli.options import Output
from decodeprof.cli.show import WIDEST, show_view
from decodeprof.report.blocks import Bar, BarPart, Section, View, line


def test_a_very_wide_terminal_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = Bar("caption", 10, (BarPart("S", "sync", 10, "sync", "meaning"),))
    shown = View(line("title"), (Section("", "", (bar,)),))
    monkeypatch.setenv("COLUMNS", "300")
    for width, wanted in ((None, WIDEST), (200, 200)):
        out = io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        show_view(shown, Output(width=width))
        assert "S" * wanted in out.getvalue().splitlines()
