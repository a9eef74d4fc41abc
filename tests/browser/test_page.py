"""The page in a browser, on a run that is played again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.observe.board.alerts import Limits
from penstock.observe.journal import Note
from penstock.paths import DataDir
from penstock.web.app import Site
from penstock.web.server import Place
from penstock.web.watched import Watch
from tests.browser.conftest import SPEC, Open, until
from tests.pages import secured_place, served
from tests.runs import AWAY_S, BURST_S, START_MS, Run, write

if TYPE_CHECKING:
    from playwright.sync_api import Page

PRESSED_S = BURST_S[1] - 20


def to_second(page: Page, second: float) -> None:
    """Move the replay, as a person would drag its bar."""
    page.wait_for_selector("#replay:not([hidden])")
    page.evaluate(
        """([share]) => { const bar = document.getElementById("scrub"); bar.value = String(share * 1000);
           document.getElementById("moment").textContent = ""; bar.dispatchEvent(new Event("change")); }""",
        [second / 899],
    )
    until(page, "document.getElementById('moment').textContent !== ''")
    page.wait_for_timeout(1_500)


def text(page: Page, selector: str) -> str:
    return page.inner_text(selector)


def test_it_loads_and_its_numbers_move(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, 100)
    until(page, "document.getElementById('headline').textContent === 'Healthy'")
    seen = set()
    for _ in range(12):
        seen.add(text(page, "#figures"))
        page.wait_for_timeout(400)
    assert len(seen) >= 3
    assert text(page, "#sinks tbody").count("\n") >= 3
    assert page.locator("#plots canvas").count() == 8


def test_where_pressure_starts_is_said_in_words(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, PRESSED_S)
    page.wait_for_selector("text=pressure starts here")
    assert "pressure starts at state" in text(page, "#flow-said")
    assert "Falling behind" in text(page, "#verdict")
    assert "Pressure High" in text(page, "#alerts")
    assert "Pressure starts at state." in str(page.get_attribute("#flow svg", "aria-label"))


def test_an_outage_is_said_and_clears(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, AWAY_S[0] + 10)
    assert "Kafka away" in text(page, "#reason")
    assert "gone" in text(page, "#brokers")
    to_second(page, AWAY_S[1] + 60)
    assert "Kafka away" not in text(page, "#reason")
    assert "Kafka back after 25 s" in text(page, "#marks")


def test_keys_do_what_the_help_says(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, 200)
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    before = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") != before
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == before
    page.keyboard.press("3")
    assert page.inner_text("#ranges [aria-checked=true]") == "1 h"
    page.focus("#ranges [aria-checked=true]")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#ranges [aria-checked=true]") == "15 min"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "theme"


def test_arrows_in_a_plot_move_the_cursor_of_all(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, 200)
    page.click("#play")
    page.wait_for_selector("#play[aria-label=Play]")
    plot = page.locator(".canvas").first
    plot.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(300)
    told = [str(one.get_attribute("aria-label")) for one in page.locator(".canvas").all()]
    assert all(", at " in label for label in told)
    page.keyboard.press("Escape")
    page.wait_for_timeout(300)
    assert ", now" in str(plot.get_attribute("aria-label"))


def test_a_replay_stops_and_goes_on(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, 100)
    page.keyboard.press("Space")
    page.wait_for_selector("#play[aria-label=Play]")
    stood = text(page, "#moment")
    page.wait_for_timeout(2_500)
    assert text(page, "#moment") == stood
    page.select_option("#speed", "60")
    page.click("#play")
    until(page, "([stood]) => document.getElementById('moment').textContent !== stood", stood)


def test_everything_has_a_name_and_the_page_has_landmarks(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, 100)
    assert page.locator("h1").count() == 1
    assert page.locator("header.masthead, main, footer, nav[aria-label]").count() == 4
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, a, input, select, svg[role=img], [role=group]")]
           .filter((one) => !one.ariaLabel && !one.textContent.trim() && !one.labels?.length
                            && !one.getAttribute("aria-labelledby")).map((one) => one.outerHTML)"""
    )
    assert nameless == []
    assert "Healthy" in text(page, "#announce")


def test_nothing_jumps_while_numbers_change(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url)
    to_second(page, 100)
    page.evaluate(
        """() => { window.shifted = 0;
           const add = (list) => list.getEntries().forEach((entry) => { window.shifted += entry.value; });
           new PerformanceObserver(add).observe({ type: "layout-shift" }); }"""
    )
    page.wait_for_timeout(5_000)
    assert page.evaluate("window.shifted") < 0.02


def test_who_wants_no_motion_gets_none(open_page: Open, replay_url: str) -> None:
    page = open_page(replay_url, reduced_motion="reduce")
    to_second(page, 100)
    assert page.evaluate("getComputedStyle(document.querySelector('.drift')).animationName") == "none"


def test_when_the_server_is_gone_the_page_says_so_and_comes_back_by_itself(
    open_page: Open, tmp_path: Path
) -> None:
    data = DataDir.at(tmp_path)
    write(data.runs / "clickstream", Run(60, start_ms=int(time.time() * 1000) - 60_000).entries())
    site = Site(Watch(data, (), lambda _: SPEC, Limits()))
    with served(site) as port:
        page = open_page(f"http://127.0.0.1:{port}/", errors_expected=True)
        page.wait_for_selector("#sinks tbody tr")
        assert not page.locator("#gone").is_visible()
    page.wait_for_selector("#gone:not([hidden])")
    assert "trying again" in text(page, "#gone")
    with served(site, Place(port=port)):
        page.wait_for_selector("#gone", state="hidden")


def test_a_pipeline_that_went_silent_is_said_so(open_page: Open, tmp_path: Path) -> None:
    data = DataDir.at(tmp_path)
    write(data.runs / "clickstream", Run(60, start_ms=int(time.time() * 1000) - 90_000).entries())
    with served(Site(Watch(data, (), lambda _: SPEC, Limits()))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("body.silent")
        assert "s ago" in text(page, "#heard")
        assert "Silent" in text(page, "#headline")
        page.close()


def test_the_token_is_asked_for_once(open_page: Open, tmp_path: Path) -> None:
    data = DataDir.at(tmp_path / "data")
    write(data.runs / "clickstream", Run(60, start_ms=int(time.time() * 1000) - 60_000).entries())
    place = secured_place(tmp_path, "a-token-of-sixteen-or-more")
    with served(Site(Watch(data, (), lambda _: SPEC, Limits())), place) as port:
        url = f"https://127.0.0.1:{port}/"
        page = open_page(url, errors_expected=True, ignore_https_errors=True)
        page.fill("#token", "a guess")
        page.click("text=Open")
        page.wait_for_selector("text=This is not the token.")
        page.fill("#token", "a-token-of-sixteen-or-more")
        page.click("text=Open")
        page.wait_for_selector("#sinks tbody tr")
        page.goto(url)
        page.wait_for_selector("#sinks tbody tr")
        assert page.evaluate("document.cookie") == ""
        page.close()


def test_several_pipelines_stand_side_by_side(open_page: Open, tmp_path: Path) -> None:
    data = DataDir.at(tmp_path)
    start_ms = int(time.time() * 1000) - 60_000
    for name in ("clickstream", "payments", "behaviour"):
        write(data.runs / name, Run(60, name=name, start_ms=start_ms).entries())
    with served(Site(Watch(data, (), lambda _: None, Limits()))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("#tabs a:nth-child(3)")
        assert "behaviour" in text(page, "#of")
        page.keyboard.press("]")
        until(page, "document.getElementById('of').textContent.includes('clickstream')")
        page.click("#tabs a:has-text('payments')")
        until(page, "document.getElementById('of').textContent.includes('payments')")
        page.close()


def test_an_empty_data_directory_explains_itself(open_page: Open, tmp_path: Path) -> None:
    with served(Site(Watch(DataDir.at(tmp_path), (), lambda _: None, Limits()))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("#empty:not([hidden])")
        assert "penstock demo clickstream" in text(page, "#empty")
        page.close()


def test_what_a_pipeline_wrote_is_shown_as_text(open_page: Open, tmp_path: Path) -> None:
    data = DataDir.at(tmp_path)
    hostile = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"
    write(data.runs / "clickstream", [*Run(30).entries(), Note(START_MS + 31_000, hostile)])
    with served(Site(Watch(data, (), lambda _: SPEC, Limits()))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("#marks li")
        assert hostile in text(page, "#marks")
        assert page.locator("#marks img").count() == 0
        assert page.title() != "owned"
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(360, 780), (768, 1024), (1440, 900), (3840, 2160)])
def test_it_fits_from_a_phone_to_a_wall(
    open_page: Open, replay_url: str, pictures: Path, width: int, height: int, scheme: str
) -> None:
    page = open_page(replay_url, viewport={"width": width, "height": height}, color_scheme=scheme)
    for name, second in (("healthy", 260), ("pressed", PRESSED_S), ("away", AWAY_S[0] + 12)):
        to_second(page, second)
        # All of it at once, with the bar of the replay at the end and not in the middle.
        page.set_viewport_size({"width": width, "height": page.evaluate("document.body.scrollHeight")})
        page.wait_for_timeout(300)
        page.screenshot(path=pictures / f"{name}-{scheme}-{width}.png")
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
