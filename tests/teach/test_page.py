"""What the page's text holds, without a browser."""

from __future__ import annotations

import html
import json
import re
from dataclasses import fields

import pytest

from decodeprof.teach.curves import MeasuredCurve, MeasuredPoint, packaged_curves
from decodeprof.teach.exercises import EXERCISES
from decodeprof.teach.page import learn_page
from decodeprof.teach.steps import Settings
from decodeprof.teach.templates import read
from tests.teach import make_curves


@pytest.fixture(scope="module")
def page() -> str:
    return learn_page(packaged_curves())


def test_it_asks_for_nothing(page: str) -> None:
    policy = html.unescape(page.partition('Policy" content="')[2].partition('"')[0])
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    # Namespaces and nothing else are written as addresses.
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=\"(?!#|data:,)", page)
    assert not re.search(r"\sstyle=\"", page), "the policy forbids style attributes"
    assert not re.search(r"\son\w+=\"", page), "the policy forbids handlers in attributes"


def test_it_is_small_and_the_same_every_time(page: str) -> None:
    assert len(page.encode()) < 200_000
    assert page == learn_page(packaged_curves())


def test_presets_are_settings_that_the_sliders_have(page: str) -> None:
    presets = re.findall(r"data-preset='([^']+)'", page)
    assert len(presets) >= 10
    names = set(re.findall(r"^    (\w+): \{ (?:label|values)", read("learn.js"), re.M))
    for preset in presets:
        assert set(json.loads(preset)) <= names | {"fused", "graph", "proportions"}


def test_a_curve_cannot_end_its_element() -> None:
    hostile = "</script><script>alert(1)</script>"
    curve = MeasuredCurve(
        name=hostile, source=hostile, settings={}, points=[MeasuredPoint(batch=1, eager_ns=1)]
    )
    page = learn_page([curve])
    assert hostile not in page
    assert page.count("</script>") == learn_page([]).count("</script>")


def test_each_curve_sets_all_that_the_model_has() -> None:
    for curve in packaged_curves():
        assert set(curve.settings) == {field.name for field in fields(Settings)}, curve.name


def test_the_measured_curves_are_those_of_the_recordings() -> None:
    if not (make_curves.FIXTURES / "stage_eager").is_dir():
        pytest.skip("no recordings in this checkout")
    assert make_curves.PLACE.read_bytes() == make_curves.encoded()


def test_each_exercise_has_one_answer_among_its_options(page: str) -> None:
    assert len(EXERCISES) == 5
    for exercise in EXERCISES:
        assert 0 <= exercise.answer < len(exercise.options)
        assert page.count(f'name="{exercise.key}"') == len(exercise.options)
