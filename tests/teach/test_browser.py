"""The page in a browser: sliders move the pictures, nothing is asked for, keys do all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decodeprof.analysis.replay.run import replay
from decodeprof.teach.curves import packaged_curves
from decodeprof.teach.exercises import EXERCISES
from decodeprof.teach.page import learn_page
from decodeprof.teach.steps import Settings, program
from tests.browser import as_seen, chromium, requests

SLIDERS = ("batch", "layers", "width", "context", "launch_ns", "bandwidth_gb_s", "sync_every")

PATHS = "[...timeline.querySelectorAll('path')].map(path => path.outerHTML).join()"
DOTS = "document.querySelectorAll('#chart .dot-eager, #chart .dot-graph').length"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learn") / "learn.html"
    path.write_text(learn_page(packaged_curves()))
    return path


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Any]:
    """The browser with a fresh page, whose console must be empty at the end."""
    as_seen(browser)
    browser.get(file.as_uri())
    settle(browser)
    yield browser
    assert browser.get_log("browser") == []


def run(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def settle(browser: Any) -> None:
    """Wait until the curves, which come last, are drawn."""
    browser.execute_async_script("setTimeout(arguments[0], 120);")


def pictures(browser: Any) -> dict[str, str]:
    return {
        "timeline": run(
            browser, "[...timeline.querySelectorAll('path')].map(p => p.outerHTML).join()"
        ),
        "chart": run(browser, "chart.innerHTML"),
        "answer": run(browser, "answer.textContent"),
        "floors": run(browser, "floors.innerHTML"),
    }


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.by import By

    for key in keys:
        browser.switch_to.active_element.send_keys(key)
    assert browser.find_elements(By.ID, "lab")
    settle(browser)


def test_it_asks_for_nothing(page: Any, file: Path) -> None:
    asked = [url for url in requests(page) if not url.startswith("data:")]
    assert asked == [file.as_uri()]


@pytest.mark.parametrize("name", SLIDERS)
def test_each_slider_moves_the_pictures_by_keyboard(page: Any, name: str) -> None:
    from selenium.webdriver.common.keys import Keys

    run(page, "document.getElementById('shown').focus()")
    press(page, Keys.END)
    if name == "bandwidth_gb_s":
        # Only the device's own time shows it.
        run(page, "document.getElementById('graph').click()")
    before = pictures(page)
    text = run(page, f"document.getElementById('{name}-out').textContent")
    run(page, f"document.getElementById('{name}').focus()")
    key = Keys.ARROW_LEFT if name == "launch_ns" else Keys.ARROW_RIGHT
    press(page, *[Keys.END] if name == "sync_every" else [key] * 3)
    after = pictures(page)
    assert run(page, f"document.getElementById('{name}-out').textContent") != text
    assert after["timeline"] != before["timeline"]
    assert after["chart"] != before["chart"]


@pytest.mark.parametrize("name", ["fused", "graph"])
def test_the_switches_move_the_pictures(page: Any, name: str) -> None:
    from selenium.webdriver.common.keys import Keys

    before = pictures(page)
    run(page, f"document.getElementById('{name}').focus()")
    press(page, Keys.SPACE)
    after = pictures(page)
    assert {key for key in before if before[key] != after[key]} == set(before)


def test_the_answer_is_what_replay_says(page: Any) -> None:
    step_ms = replay(program(Settings())).step_ns / 1e6
    answer = run(page, "answer.textContent").replace("\u00a0", " ")
    assert answer.startswith(f"Launch-bound: a step takes {step_ms:.1f} ms")


def test_a_step_of_seconds_makes_less_than_one_token_a_second(page: Any) -> None:
    for name in ("layers", "width", "context"):
        run(page, f"{name}.value = {name}.max")
        run(page, f"document.getElementById('{name}').dispatchEvent(new Event('input'))")
    run(page, "document.getElementById('bandwidth_gb_s').value = 0")
    run(page, "document.getElementById('bandwidth_gb_s').dispatchEvent(new Event('input'))")
    settings = Settings(layers=48, width=8192, context=32_768, bandwidth_gb_s=500)
    rate = 1e9 / replay(program(settings)).step_ns
    assert 0.1 < rate < 10
    assert f"{rate:.2g} tokens a second" in run(page, "answer.textContent")


def test_behind_the_crossing_launches_no_longer_bound_it(page: Any) -> None:
    run(page, "[...document.querySelectorAll('#crossing button')].at(-1).click()")
    settle(page)
    assert run(page, "answer.textContent").startswith("Kernel-bound")
    assert run(page, "document.activeElement.id") == "h-lab"


def test_a_graph_that_is_read_after_each_step_waits(page: Any) -> None:
    run(page, "document.querySelector('#sync button').click()")
    settle(page)
    assert run(page, "document.querySelectorAll('#timeline .k-wait').length") == 1
    assert "waits for" in run(page, "document.getElementById('timeline-text').textContent")


def test_the_film_runs_and_can_be_stopped(page: Any) -> None:
    run(page, "play.getAttribute('aria-pressed') === 'true' || play.click()")
    before = run(page, "document.querySelector('.cursor').getAttribute('x1')")
    settle(page)
    assert run(page, "document.querySelector('.cursor').getAttribute('x1')") != before
    run(page, "play.click()")
    stopped = run(page, "document.querySelector('.cursor').getAttribute('x1')")
    settle(page)
    assert run(page, "document.querySelector('.cursor').getAttribute('x1')") == stopped


def test_measured_dots_stand_beside_the_model(page: Any) -> None:
    dots = sum(
        (point.eager_ns is not None) + (point.graph_ns is not None)
        for point in packaged_curves()[0].points
    )
    assert (
        run(page, "document.querySelectorAll('#chart .dot-eager, #chart .dot-graph').length")
        == dots
    )
    run(page, "document.getElementById('as-measured').click()")
    settle(page)
    assert "measured (" in run(page, "document.getElementById('chart-text').textContent")


def test_a_ring_moves_along_the_measured_curve_with_the_batch(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    curve = packaged_curves()[0]
    assert len(curve.points) > 3
    run(page, "document.getElementById('as-measured').click()")
    run(page, "document.getElementById('batch').focus()")
    press(page, Keys.HOME)
    seen = []
    for point in (curve.points[0], curve.points[-1]):
        text = run(page, "document.getElementById('chart-text').textContent").replace("\u00a0", " ")
        assert f"{(point.eager_ns or 0) / 1e6:.1f} ms measured ({curve.name})." in text
        ring = "document.getElementById('here-measured')"
        centre = run(page, f"['cx', 'cy'].map(name => {ring}.getAttribute(name))")
        dots = run(
            page,
            "[...document.querySelectorAll('.dot-eager')]"
            ".map(dot => ['cx', 'cy'].map(name => dot.getAttribute(name)))",
        )
        assert centre in dots
        seen.append(centre)
        press(page, Keys.END)
    assert seen[0] != seen[1]
    run(page, "document.getElementById('fused').click()")
    settle(page)
    assert "other settings" in run(page, "document.getElementById('chart-text').textContent")


def test_each_measured_curve_can_be_chosen_and_set(page: Any) -> None:
    for index, curve in enumerate(packaged_curves()):
        run(page, f"document.getElementById('curve').selectedIndex = {index}")
        run(page, "document.getElementById('curve').dispatchEvent(new Event('change'))")
        run(page, "document.getElementById('as-measured').click()")
        settle(page)
        assert run(page, DOTS) == 2 * len(curve.points)
        text = run(page, "document.getElementById('chart-text').textContent").replace("\u00a0", " ")
        assert f"measured ({curve.name})." in text
        assert run(page, "document.getElementById('fused').checked") == curve.settings["fused"]


@pytest.mark.parametrize("before", [1, 2])
def test_a_curve_takes_nothing_over_from_the_one_before(page: Any, before: int) -> None:
    curves = packaged_curves()
    worked = next(at for at, curve in enumerate(curves) if "worked example" in curve.name)
    for index in (before, worked):
        run(page, "document.getElementById('graph').checked || graph.click()")
        run(page, f"document.getElementById('curve').selectedIndex = {index}")
        run(page, "document.getElementById('as-measured').click()")
        settle(page)
    settings = {**curves[worked].settings, "launch_ns": 13_000, "bandwidth_gb_s": 4_300}
    step_ns = replay(program(Settings(**settings))).step_ns  # type: ignore[arg-type]
    text = run(page, "document.getElementById('chart-text').textContent").replace("\u00a0", " ")
    assert text.startswith(f"Batch 1: {step_ns / 1e6:.1f} ms by the model, 24.2 ms measured (")
    assert step_ns == pytest.approx(24.2e6, rel=0.05)
    assert not run(page, "graph.checked")


def test_a_point_of_a_slow_host_is_told(page: Any) -> None:
    curve = packaged_curves()[0]
    assert [point.batch for point in curve.points if point.slow_host] == [64]
    assert run(page, "document.querySelectorAll('#chart .slow').length") == 1
    run(page, "document.getElementById('as-measured').click()")
    for batch, told in ((32, False), (64, True)):
        run(page, f"batch.value = {batch.bit_length() - 1}")
        run(page, "batch.dispatchEvent(new Event('input'))")
        settle(page)
        text = run(page, "document.getElementById('chart-text').textContent")
        assert text.startswith(f"Batch {batch}: ")
        assert ("The host was slow" in text) == told


def test_as_many_kernels_are_shown_as_the_slider_says(page: Any) -> None:
    for graph in (False, True):
        assert run(page, "graph.checked") == graph
        for at, wanted in ((0, 6), (2, 24), (5, 240)):
            run(page, f"shown.value = {at}")
            run(page, "shown.dispatchEvent(new Event('input'))")
            text = run(page, "document.getElementById('timeline-text').textContent")
            assert f"The device runs {wanted} kernels" in text
            assert ("of a whole step" in text) == graph
        run(page, "graph.click()")


def test_numbers_on_the_axis_are_written_as_elsewhere(page: Any) -> None:
    ticks = run(page, "[...document.querySelectorAll('#chart .tick')].map(t => t.textContent)")
    assert "1,024" in ticks
    assert "1024" not in ticks


def test_the_exercises_are_checked(page: Any) -> None:
    for index, exercise in enumerate(EXERCISES):
        form = f"document.forms[{index}]"
        wrong = (exercise.answer + 1) % len(exercise.options)
        run(page, f"{form}.querySelector('button').click()")
        assert run(page, f"{form}.querySelector('.verdict').textContent") == "Choose one first."
        run(page, f"{form}.elements['{exercise.key}'][{wrong}].click()")
        run(page, f"{form}.querySelector('button').click()")
        assert "Not this one" in run(page, f"{form}.querySelector('.verdict').textContent")
        assert run(page, f"{form}.querySelector('.why').hidden")
        run(page, f"{form}.elements['{exercise.key}'][{exercise.answer}].click()")
        run(page, f"{form}.querySelector('button').click()")
        assert run(page, f"{form}.querySelector('.verdict').textContent") == "Right."
        assert not run(page, f"{form}.querySelector('.why').hidden")
    assert run(page, "score.textContent") == "5 of 5 right."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_400_pixels(browser: Any, file: Path, scheme: str) -> None:
    as_seen(browser, width=400, scheme=scheme)
    browser.get(file.as_uri())
    settle(browser)
    assert run(browser, "document.documentElement.scrollWidth") == 400
    wide = run(
        browser,
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('pre, .skip') && "
        "e.getBoundingClientRect().right > 401).map(e => e.outerHTML.slice(0, 80))",
    )
    assert wide == []
    assert browser.get_log("browser") == []


def test_questions_of_several_lines_leave_their_box_whole(browser: Any, file: Path) -> None:
    as_seen(browser, width=400)
    browser.get(file.as_uri())
    inside = "legend => legend.getBoundingClientRect().top > 1 + "
    inside += "legend.parentElement.getBoundingClientRect().top"
    assert run(browser, f"[...document.querySelectorAll('legend')].every({inside})")


def test_dark_mode_is_dark(browser: Any, file: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        as_seen(browser, scheme=scheme)
        browser.get(file.as_uri())
        colours.append(run(browser, "getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(251, 251, 250)", "rgb(18, 20, 24)"]


def test_every_control_has_a_name_and_can_be_reached(page: Any) -> None:
    nameless = run(
        page,
        "[...document.querySelectorAll('input, select, button')].filter(e => "
        "!(e.labels?.length || e.textContent.trim()) || e.tabIndex < 0).map(e => e.outerHTML)",
    )
    assert nameless == []
