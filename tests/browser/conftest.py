"""A browser, and pages in it that are watched for what must never happen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.observe.board.alerts import Limits
from penstock.spec import load
from penstock.web.app import Site
from penstock.web.recording import Recording
from tests import chromium
from tests.pages import served
from tests.runs import Run, write

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

SPEC = load(Path(__file__).parents[2] / "pipelines" / "clickstream.toml", environ={})
Open = Callable[..., "Page"]


def until(page: Page, condition: str, *given: object, within_ms: float = 20_000) -> None:
    """Wait until a JavaScript condition holds.

    Playwright's own wait evaluates text inside the page, which the page's policy rightly forbids.
    """
    deadline = time.monotonic() + within_ms / 1000
    while not page.evaluate(condition, list(given)):
        assert time.monotonic() < deadline, f"{condition} does not hold: {page.inner_text('#verdict')}"
        page.wait_for_timeout(100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if (found := chromium.find()) is None:
        pytest.skip(chromium.MISSING)
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # A container's root has no sandbox, and often a small /dev/shm.
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages; at the end none of them may have had an error, or have asked anybody else."""
    troubles: list[str] = []
    contexts = []

    def opened(url: str, *, errors_expected: bool = False, **how: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **how})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        origin = "/".join(url.split("/")[:3])

        def said(message: ConsoleMessage) -> None:
            if message.type == "error" and not errors_expected:
                troubles.append(f"console: {message.text}")

        def asked(request: Request) -> None:
            if not request.url.startswith(origin):
                troubles.append(f"asked outside: {request.url}")

        page.on("console", said)
        page.on("request", asked)
        page.on("pageerror", lambda error: troubles.append(f"page: {error}"))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "clickstream"
    write(run, Run(900).entries())
    return run


@pytest.fixture(scope="session")
def replay_url(recorded: Path) -> Iterator[str]:
    with served(Site(Recording.read(recorded, SPEC, Limits()))) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of pages go: $PAGE_PICTURES, or a directory of pytest's."""
    asked = os.environ.get("PAGE_PICTURES")
    path = Path(asked) if asked else tmp_path_factory.mktemp("pictures")
    path.mkdir(parents=True, exist_ok=True)
    return path
