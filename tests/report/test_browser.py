"""The report in a browser: right in width, in both colour schemes and in print; skipped where none is installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynid.report import write_report
from dynid.run import Identification

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
# Elements beyond the right edge that nothing scrolls, by tag, class and edge.
BEYOND = """(width) => [...document.querySelectorAll("body *")].filter((element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.right > width + 1 && !element.closest(".scroll, svg, .js-plotly-plot");
}).map((element) => `${element.tagName}.${element.className} ${element.getBoundingClientRect().right}`)"""
# Texts whose contrast with what lies behind them is below that of WCAG 2.2 (AA: 4.5, large 3), by class and ratio.
FAINT = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0.9) { return found.slice(0, 3); }
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("main *, header *, nav *")].filter((element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) &&
    element.offsetParent !== null && !element.closest("svg, .js-plotly-plot")
  ).map((element) => {
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(style.color).slice(0, 3)), light(behind(element))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 18.6 && parseInt(style.fontWeight) >= 600;
    return [(a + 0.05) / (b + 0.05), large ? 3 : 4.5, `${element.tagName}.${element.className}`];
  }).filter(([ratio, least]) => ratio < least).map(([ratio, , name]) => `${name} ${ratio.toFixed(2)}`);
}"""


# Looks at a page, 50 ms apart, before it is said not to come to what it should.
MOST_LOOKS = 2400


def wait_until(page: Any, expression: str) -> None:
    """Waits for an expression of JavaScript to be true, on pages whose policy forbids `wait_for_function`."""
    for _ in range(MOST_LOOKS):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install dynid[browser]"
    )
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    with sync.sync_playwright() as play:
        try:
            opened = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        except sync.Error as error:
            pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(identification: Identification, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(identification, path)
    return path.as_uri()


def show_plots(page: Any) -> None:
    """Scrolls to the first figures, which are drawn when they come near the screen."""
    page.evaluate("document.getElementById('torque').scrollIntoView({ behavior: 'instant' })")
    page.wait_for_selector(".plot .ytick text")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("unfolded", [False, True])
def test_nothing_is_cut_off_or_too_faint(
    browser: Any, address: str, width: int, scheme: str, unfolded: bool
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    page, errors = context.new_page(), []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    if unfolded:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    show_plots(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BEYOND, width) == []
    assert page.evaluate(FAINT) == []
    # The scheme reaches the page and what plotly draws.
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    tick = page.evaluate("getComputedStyle(document.querySelector('.plot .ytick text')).fill")
    assert (tick == "rgb(107, 119, 133)") == (scheme == "light")
    assert errors == []
    context.close()


def test_the_first_screen_shows_verdict_errors_and_robot(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(address)
    for part in ("#verdict .cards", "#errors table", "#robot .scene-view"):
        assert page.evaluate(f"document.querySelector('{part}').getBoundingClientRect().bottom") < 900
    page.close()


def test_the_report_fits_two_screens(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1200})
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollHeight") < 2 * 1200
    assert page.evaluate("document.querySelector('main').innerText.split(/\\s+/).length") < 1000
    page.close()


def test_an_address_opens_its_place(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(f"{address}#signals")
    opened = "[...document.querySelectorAll('.folded > details[open]')].map((one) => one.parentElement.id)"
    assert page.evaluate(opened) == ["signals"]
    # So does a click on the contents, and one on the address that is shown already.
    page.click(".contents a[href='#residuals']")
    wait_until(page, f"{opened}.includes('residuals')")
    page.wait_for_selector("#residuals .plot .ytick text")
    page.click("#residuals summary >> nth=0")
    assert page.evaluate(opened) == ["signals"]
    page.click(".contents a[href='#residuals']")
    wait_until(page, f"{opened}.includes('residuals')")
    context.close()


def test_the_first_screen_of_a_phone_reaches_the_errors(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(address)
    assert page.evaluate("document.querySelector('#errors table').getBoundingClientRect().top") < 844
    # The contents are one line that is pushed aside; all of it can be reached.
    nav = "document.querySelector('.contents')"
    assert page.evaluate(f"{nav}.getBoundingClientRect().height") < 60
    assert page.evaluate(f"{nav}.scrollWidth > {nav}.clientWidth")
    page.close()


def test_print_is_light_and_whole(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="dark")
    page = context.new_page()
    page.goto(address)
    show_plots(page)
    # What is printed is drawn light, every tab of it, and the screen is dark again behind it.
    drawn = """(event) => { window.dispatchEvent(new Event(event));
      return [...document.querySelectorAll(".plot")].map((plot) => plot.dataset.drawn || "none"); }"""
    assert set(page.evaluate(drawn, "beforeprint")) == {"light"}
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 less its margins
    wait_until(page, "innerWidth === 703")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    assert page.evaluate(BEYOND, 703) == []
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="screen")
    assert "dark" in page.evaluate(drawn, "afterprint")
    context.close()


def test_a_command_is_copied(browser: Any, address: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(address)
    # The button says so for a moment only.
    page.evaluate(
        "() => { const one = document.querySelector('.copy'); window.said = [];"
        " new MutationObserver(() => said.push(one.textContent)).observe(one, { childList: true, subtree: true }); }"
    )
    page.click(".copy >> nth=0")
    wait_until(page, "said.includes('Copied')")
    command = page.evaluate("document.querySelector('.command code').textContent")
    assert command.startswith("dynid ")
    assert page.evaluate("navigator.clipboard.readText()") == command
    context.close()
