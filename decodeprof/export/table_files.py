"""Tables as files, all of them or none."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from decodeprof.errors import DecodeprofError, InputError
from decodeprof.export.files import check_new
from decodeprof.export.tables import TABLE_NAMES, Tables, check_pandas
from decodeprof.recording import whole_file

Format = Literal["csv", "parquet"]


def formats_of(*, csv: bool, parquet: bool) -> list[Format]:
    """The formats that were asked for."""
    asked: list[tuple[Format, bool]] = [("csv", csv), ("parquet", parquet)]
    return [format_ for format_, wanted in asked if wanted]


def check_tables(folder: Path, formats: Sequence[Format], *, force: bool) -> None:
    """Raise what `write_tables` would, as far as it can be known before the analysis.

    Raises:
        UsageError: a file exists, and may not be replaced.
        InputError: the folder is none, or cannot be made.
        DecodeprofError: a package that writes tables is not installed.
    """
    check_pandas()
    if "parquet" in formats and importlib.util.find_spec("pyarrow") is None:
        raise DecodeprofError(
            "Parquet files need pyarrow",
            why="`pyarrow` is not installed",
            hint="pip install 'decodeprof[parquet]'; `--csv` needs pandas alone",
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"cannot write into `{folder}`",
            why="it is no folder",
            hint="name a folder with `--out`",
        )
    if folder.is_dir():
        paths = [folder / f"{name}.{format_}" for format_ in formats for name in TABLE_NAMES]
        check_new(paths, force=force)
    else:
        check_new([folder], force=force)


def write_tables(
    tables: Tables, folder: Path, formats: Sequence[Format], *, force: bool = False
) -> list[Path]:
    """Write each table as a file of its name into a folder, which is made if need be.

    Args:
        tables: the tables.
        folder: the folder; the one above it must be there.
        formats: in which formats.
        force: replace files that exist.

    Returns:
        The files.

    Raises:
        UsageError: a file exists, and may not be replaced.
        InputError: the folder cannot be written.
        DecodeprofError: a package that writes tables is not installed.
    """
    check_tables(folder, formats, force=force)
    made = _make(folder)
    paths = []
    try:
        # All are written before the first takes its name.
        with contextlib.ExitStack() as files:
            for format_ in formats:
                for name, frame in tables.named():
                    path = folder / f"{name}.{format_}"
                    file = files.enter_context(whole_file(path))
                    if format_ == "csv":
                        frame.to_csv(file, index=False)
                    else:
                        frame.to_parquet(file, index=False, engine="pyarrow")
                    paths.append(path)
    except BaseException:  # Whatever it was, an empty folder is not left behind.
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return paths


def _make(folder: Path) -> bool:
    """Make a folder; False where it was there."""
    if folder.is_dir():
        return False
    try:
        folder.mkdir()
    except OSError as error:
        raise InputError(
            f"cannot make the folder `{folder}`",
            why=str(error.strerror),
            hint="name another place with `--out`",
        ) from None
    return True
