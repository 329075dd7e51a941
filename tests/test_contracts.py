"""What holds for the package as a whole, whoever wrote which part."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import decodeprof
from decodeprof.cli import group
from decodeprof.model import diagnosis

PACKAGE = Path(decodeprof.__file__).parent
ROOT = PACKAGE.parent
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400
MOST_FUNCTION_LINES = 65
"""About sixty: a call with one keyword a line is long and not hard."""
NAMES_THAT_SAY_NOTHING = {"utils", "common", "helpers", "base", "manager", "misc"}
PRINTING = ("cli", "report")
SCRIPTS = {Path("reference/hf_story/variants.py")}  # run by hand, as a table of its own


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_schema_is_that_of_the_types() -> None:
    path = PACKAGE / "model" / "diagnosis.schema.json"
    assert path.read_bytes() == diagnosis.json_schema()


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert decodeprof.__version__ == project["version"]


def test_the_public_names_are_there_and_no_others() -> None:
    from decodeprof.mark import step

    assert decodeprof.step is step
    assert dir(decodeprof) == sorted(decodeprof.__all__)
    for name in decodeprof.__all__:
        assert getattr(decodeprof, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(decodeprof, "nothing")  # noqa: B009


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, decodeprof\n"
        "decodeprof.step\n"
        "heavy = {'torch', 'numpy', 'msgspec', 'rich', 'click'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_short_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    assert path.stem not in NAMES_THAT_SAY_NOTHING
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no docstring"
    for function in functions(tree):
        # The signature and the docstring are not what makes a function hard to follow.
        first = function.body[bool(ast.get_docstring(function)) and len(function.body) > 1]
        lines = (function.end_lineno or 0) - first.lineno + 1
        assert lines <= MOST_FUNCTION_LINES, f"{function.name} has {lines} lines"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_command_line_and_the_reports_print(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    inside = path.relative_to(PACKAGE)
    assert "print" not in calls or inside.parts[0] in PRINTING or inside in SCRIPTS


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_catches_everything_says_why(path: Path) -> None:
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if re.search(r"except (Base)?Exception\b|except:", line):
            near = lines[max(0, number - 3) : number + 3]
            assert any("# " in other for other in near), f"line {number + 1}"


@pytest.mark.parametrize("name", group.list_commands(click.Context(group)))
def test_every_command_and_option_is_documented(name: str) -> None:
    readme = (ROOT / "README.md").read_text()
    assert f"decodeprof {name}" in readme
    command = group.get_command(click.Context(group), name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert f"`{parameter.opts[0]}`" in readme, parameter.opts[0]


def test_every_file_that_the_readme_links_is_there() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []
