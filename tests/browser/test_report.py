"""A report in a browser: from a file, with no server, on any screen and on paper."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.observe.run import spec_file
from penstock.report.page import page as html
from penstock.report.reading import RunFiles
from penstock.report.report import report
from penstock.spec import to_toml
from tests.browser.conftest import SPEC, Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

OVERLAPS = """() => {
  const boxes = (svg, kind) => [...svg.querySelectorAll(kind)].filter((one) => one.getClientRects().length)
    .map((one) => ({ text: one.textContent, box: one.getBoundingClientRect() }));
  const found = [];
  for (const svg of document.querySelectorAll("svg.axes")) {
    for (const kind of ["text.x", "text.y", "text.word"]) {
      const all = boxes(svg, kind);
      for (let i = 1; i < all.length; i++) {
        const [a, b] = [all[i - 1].box, all[i].box];
        if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
          found.push(`${all[i - 1].text} / ${all[i].text}`);
      }
    }
  }
  return found;
}"""


@pytest.fixture(scope="session")
def written(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    spec_file(recorded).write_text(to_toml(SPEC))
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html(report(RunFiles(recorded), int(time.time() * 1000))), encoding="utf-8")
    return file.as_uri()


def fits(page: Page, width: int) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth") <= width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 3840])
def test_it_fits_from_a_phone_to_a_wall(
    open_page: Open, written: str, pictures: Path, width: int, scheme: str
) -> None:
    page = open_page(written, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.screenshot(path=pictures / f"report-{scheme}-{width}.png", full_page=True)
    assert fits(page, width)
    assert page.evaluate(OVERLAPS) == []
    dark = "rgb(12, 20, 22)"
    assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == dark) == (scheme == "dark")


def test_it_needs_no_script(open_page: Open, written: str) -> None:
    page = open_page(written, java_script_enabled=False)
    assert "Recovered" in page.inner_text("h1")
    assert page.locator("svg.axes path.line").count() > 10
    page.click("summary")
    assert "[source]" in page.inner_text("details pre")


def test_every_plot_has_a_name_and_its_figures(open_page: Open, written: str) -> None:
    page = open_page(written)
    assert page.locator("figure.plot").count() == 11
    for plot in page.locator("svg.axes").all():
        label, about = str(plot.get_attribute("aria-labelledby")).split()
        assert page.locator(f"#{label}").text_content()
        assert "mean" in str(page.locator(f"#{about}").text_content())
    assert page.locator("figure.plot table.legend").count() == 11
    assert page.locator("h1").count() == 1


def test_it_prints_in_light(open_page: Open, written: str, pictures: Path) -> None:
    page = open_page(written, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    printed = page.pdf(path=pictures / "report.pdf", prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
