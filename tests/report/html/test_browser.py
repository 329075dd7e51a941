"""What a page does in a browser: no request, an empty console, and a timeline that answers."""

from __future__ import annotations

import base64
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decodeprof.diagnosis.charts import charts_of
from decodeprof.report.html import html
from tests.browser import as_seen, chromium, requests
from tests.report.html.pages import loop, named, page_of
from tests.report.test_terminal import _with_name_everywhere

SYNCS = 2
"""Two steps are drawn, each ended by one blocking call."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    analyzed = loop(folder)
    (folder / "page.html").write_text(page_of(analyzed))
    hostile = "</script><img src='http://a.example/x' onerror=\"document.title='gone'\">\u202e[red]"
    charts = named(charts_of(analyzed.evidence, analyzed.diagnosis), hostile)
    bad = html(_with_name_everywhere(analyzed.diagnosis, hostile), charts)
    (folder / "hostile.html").write_text(bad)
    return folder / "page.html"


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Any]:
    """The browser with a fresh page, whose console must be empty at the end."""
    as_seen(browser)
    browser.get(file.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def run(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def settle(browser: Any) -> None:
    """Wait until what was asked for has been drawn."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
    )


def press(browser: Any, *keys: str) -> None:
    timeline = browser.find_element("css selector", ".tl-main")
    timeline.send_keys(*keys)
    settle(browser)


def ruler(browser: Any) -> str:
    """The ruler's labels: they tell which stretch is shown."""
    settle(browser)
    return str(
        run(
            browser,
            "[...document.querySelectorAll('.tl-main > text.tick')].slice(0, 6)"
            ".map(t => t.textContent).join('|')",
        )
    )


def test_no_request_leaves_the_page_and_its_console_is_empty(browser: Any, file: Path) -> None:
    requests(browser)
    for name in ("page.html", "hostile.html"):
        browser.get(file.with_name(name).as_uri())
        assert requests(browser) == [file.with_name(name).as_uri(), "data:,"][:1]
        assert browser.get_log("browser") == []
        assert browser.title != "gone"
        assert run(browser, "document.querySelectorAll('.tl-main path').length") > 0
        assert run(browser, "document.images.length") == 0


def test_a_server_is_asked_for_the_page_alone(browser: Any, file: Path) -> None:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = file.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            browser.get(f"http://127.0.0.1:{server.server_port}/")
            settle(browser)
        finally:
            server.shutdown()
            thread.join()
    assert asked == ["/"]
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page: Any, width: int, scheme: str) -> None:
    as_seen(page, width=width, scheme=scheme)
    settle(page)
    assert run(page, "document.documentElement.scrollWidth") <= width
    colour = run(page, "getComputedStyle(document.body).backgroundColor")
    dark = sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(", ")) < 384
    assert dark == (scheme == "dark")


def test_keys_zoom_and_move_and_show_all(page: Any) -> None:
    whole = ruler(page)
    press(page, "+")
    zoomed = ruler(page)
    assert zoomed != whole
    press(page, "d")
    assert ruler(page) not in {zoomed, whole}
    press(page, "0")
    assert ruler(page) == whole


def test_the_wheel_zooms_where_the_pointer_is_and_a_drag_moves(page: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    timeline = page.find_element("css selector", ".tl-main")
    run(page, "document.querySelector('#tl').scrollIntoView()")
    page.execute_async_script("setTimeout(arguments[0], 300)")  # the page has come to rest
    whole = ruler(page)
    ActionChains(page).scroll_from_origin(ScrollOrigin.from_element(timeline), 0, -400).perform()
    zoomed = ruler(page)
    assert zoomed != whole
    ActionChains(page).drag_and_drop_by_offset(timeline, -200, 0).perform()
    assert ruler(page) not in {zoomed, whole}


def test_a_finding_leads_to_its_place_on_the_timeline(page: Any) -> None:
    links = page.find_elements("css selector", "a[data-place]")
    assert links
    whole = ruler(page)
    code = links[0].get_attribute("data-place")
    page.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    links[0].click()
    assert ruler(page) != whole
    assert page.find_element("css selector", ".tl-told").text.startswith(f"{code}: ")
    assert len(page.find_elements("css selector", ".tl-main .place")) == 1
    top = run(page, "document.querySelector('#tl').getBoundingClientRect().top")
    assert 0 <= top + 1 < 100


def test_each_blocking_call_is_marked_and_leads_to_its_row(page: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    flags = page.find_elements("css selector", ".tl-main .flag")
    assert len(flags) == SYNCS
    press(page, "n")
    told = page.find_element("css selector", ".tl-told").text
    assert told.startswith("cudaStreamSynchronize: blocks the host for ")
    press(page, "0")
    run(page, "document.querySelector('#tl').scrollIntoView()")
    ActionChains(page).move_to_element(
        page.find_elements("css selector", ".tl-main .flag")[0]
    ).click().perform()
    assert run(page, "location.hash") == "#syncs-1"
    assert page.find_element("css selector", "#syncs-1 a.goto").text == "on the timeline"


def test_hover_and_keys_tell_an_items_name_and_times(page: Any) -> None:
    press(page, ".")
    first = page.find_element("css selector", ".tl-told").text
    assert first.splitlines()[0] == "indexSelectSmallIndex"
    assert "gather and scatter on stream 7" in first
    assert "2 µs, from 0" in first
    assert "launched 5 µs before it started, by aten::embedding" in first
    press(page, ".")
    assert page.find_element("css selector", ".tl-told").text.startswith("void rms_norm_kernel")


def test_find_counts_and_goes_to_each(page: Any) -> None:
    field = page.find_element("css selector", "#tl input")
    field.send_keys("flash_fwd")
    settle(page)
    # Six layers in each of two steps.
    assert page.find_element("css selector", "#tl .hits").text == "12 found; Enter goes to each"
    whole = ruler(page)
    field.send_keys("\n")
    assert page.find_element("css selector", "#tl .hits").text == "1 of 12"
    assert ruler(page) != whole
    field.clear()
    field.send_keys("no such thing")
    assert page.find_element("css selector", "#tl .hits").text == "nothing found"


def test_with_scripts_off_the_page_reads_and_the_controls_are_gone(
    browser: Any, file: Path
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(file.as_uri())
        seen = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        names = [node.get("name", {}).get("value", "") for node in seen if not node["ignored"]]
        assert "Findings" in names
        assert "next sync" not in names
        assert any("with scripts on" in name for name in names)
        shown = browser.execute_cdp_cmd("DOM.getDocument", {"depth": 1})["root"]["nodeId"]
        lanes = browser.execute_cdp_cmd(
            "DOM.querySelectorAll", {"nodeId": shown, "selector": ".tl-over path"}
        )
        assert len(lanes["nodeIds"]) > SYNCS
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.get_log("browser") == []


def test_on_paper_controls_are_gone_and_folded_text_is_there(page: Any) -> None:
    as_seen(page, media="print", scheme="dark")
    for selector in ("nav", ".tl-bar", ".tl-box"):
        assert not page.find_element("css selector", selector).is_displayed()
    assert run(page, "getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    paper = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(paper["data"]).startswith(b"%PDF")


def test_every_control_is_reached_by_the_keyboard(page: Any) -> None:
    reached: list[str] = []
    while "tl-main" not in reached and len(reached) < 60:
        page.switch_to.active_element.send_keys("\ue004")  # tab
        reached.append(
            run(page, "document.activeElement.className?.baseVal ?? document.activeElement.tagName")
        )
    assert reached[-8:-2] == ["BUTTON"] * 6
    assert reached[-2:] == ["INPUT", "tl-main"]
