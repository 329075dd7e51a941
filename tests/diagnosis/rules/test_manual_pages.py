"""Every rule is one file with a manual page, and the README's table lists them all."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from decodeprof.diagnosis.judging import all_rules
from tests.readme import README

RULES = all_rules()
SECTIONS = [
    "What it measures",
    "Why it costs time",
    "Thresholds",
    "What to do",
    "When to ignore it",
]
TESTS = Path(__file__).parent


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.CODE))
def test_a_page_has_one_sentence_and_its_sections(rule: ModuleType) -> None:
    page = inspect.cleandoc(rule.__doc__ or "")
    first, *rest = page.split("\n\n")
    assert first.endswith(".")
    assert re.findall(r"^([A-Z][a-z ]+):$", page, re.M) == SECTIONS
    assert all(paragraph.splitlines()[-1].startswith("    ") for paragraph in rest)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.CODE))
def test_a_rule_is_named_after_its_file_and_has_its_tests(rule: ModuleType) -> None:
    stem = rule.__name__.rpartition(".")[2]
    assert stem.replace("_", "-") == rule.CODE
    assert (TESTS / f"test_{stem}.py").is_file()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.CODE))
def test_no_rule_imports_another(rule: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(rule))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [module for module in modules if module.startswith("decodeprof.diagnosis.rules")] == []


def test_what_is_left_to_another_rule_is_left_to_one_that_exists() -> None:
    named = {
        code
        for rule in RULES
        for code in re.findall(r'LeftTo\("([^"]+)"\)', inspect.getsource(rule))
    }
    assert named
    assert named <= {rule.CODE for rule in RULES}


def test_the_readme_lists_every_rule() -> None:
    rows = "\n".join(f"| `{rule.CODE}` | {rule.TITLE} |" for rule in RULES)
    table = f"| code | what it finds |\n| --- | --- |\n{rows}\n\n"
    assert table in README.read_text(), f"the README's table should read\n{table}"
