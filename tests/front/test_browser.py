"""The report in a real browser: light and dark, on a desktop and on a phone; pictures go to out/screenshots."""

import time
from pathlib import Path

import pages
import pytest
from browser import Browser, chromium

from langevin.report.live import Live
from langevin.report.page import SHORT, page

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no `chromium` on PATH: the report was not looked at in a browser"),
    pytest.mark.xdist_group("browser"),  # one process for all
]
PICTURES = Path(__file__).parent.parent / "out" / "screenshots"
LAYOUT = ("long names", "nasty", "twenty chains", "30 classes", "huge", "off", "undiagnosed", "1 row")

# text that leaves its chart or lies over other text of it; 4 px of a line's height are empty
COLLISIONS = """(() => {
  const bad = [];
  for (const svg of document.querySelectorAll('.chart > svg')) {
    const box = svg.getBoundingClientRect(), name = svg.getAttribute('aria-label').slice(0, 40);
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    for (const [i, [words, r]] of texts.entries()) {
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1)
        bad.push(`${name}: "${words}" is cut off`);
      for (const [other, s] of texts.slice(i + 1))
        if (r.left < s.right - 1 && s.left < r.right - 1 && r.top < s.bottom - 4 && s.top < r.bottom - 4)
          bad.push(`${name}: "${words}" lies over "${other}"`);
    }
  }
  return bad;
})()"""
HEIGHTS = "Object.fromEntries([...document.querySelectorAll('section')].map(s => [s.id, s.offsetHeight]))"
LINKS = """[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))
  .filter(href => !document.querySelector(href))"""
# the least contrast of text that is not in a chart with what is painted behind it
CONTRAST = """(() => {
  const rgba = text => { const v = text.match(/[\\d.]+/g).map(Number); return v.length > 3 ? v : [...v, 1]; };
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = el => { for (; el; el = el.parentElement) {
    const c = rgba(getComputedStyle(el).backgroundColor); if (c[3] > .99) return c; } return [255, 255, 255, 1]; };
  let least = 21;
  for (const el of document.querySelectorAll('p, li, dt, dd, h1, h2, h3, th, td, a, .flag, figcaption, caption')) {
    if (!el.innerText || el.matches('.hit, .miss')) continue;
    const [a, b] = [light(rgba(getComputedStyle(el).color)), light(behind(el))].sort((x, y) => y - x);
    least = Math.min(least, (a + .05) / (b + .05));
  }
  return least;
})()"""
# text that does not fit its tile or the box of the verdict
SPILLED = """[...document.querySelectorAll('.tiles div, .tiles dd, .tiles dt, .verdict')]
  .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.innerText.slice(0, 60))"""
EMPTY = """[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect())
  .filter(r => !(r.width > 0 && r.height > 0)).length"""
SMALLEST = """Math.min(...[...document.querySelectorAll('.chart text')].map(
  t => parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / 480))"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as it:
        yield it


def look(browser: Browser, file: Path, width: int, *, dark: bool) -> None:
    """Open a page and check what must hold for every one."""
    browser.open(file, width=width, dark=dark)
    assert browser.value(f"matchMedia('(prefers-color-scheme: {'dark' if dark else 'light'})').matches")
    assert browser.value("innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    heights = browser.value(HEIGHTS)
    assert list(heights) == [name for name in SHORT if name in heights or name != "evidence"]
    assert browser.value(LINKS) == []
    assert browser.value(CONTRAST) >= 4.5
    assert browser.value(SPILLED) == []
    assert all(height > 0 for height in heights.values())
    assert browser.value("document.querySelectorAll('svg').length") > 0
    assert browser.value(EMPTY) == 0
    assert browser.value(COLLISIONS) == []
    assert browser.value(SMALLEST) >= 11
    # after all else, so that what the page said late is heard
    assert browser.said("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded") == []
    asked = [event["request"]["url"] for event in browser.said("Network.requestWillBeSent")]
    assert asked == [file.resolve().as_uri()]


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_page_in_light_and_dark_on_desktop_and_phone(browser, task, tmp_path):
    file = tmp_path / f"{task}.html"
    file.write_text(page(getattr(pages, task)()), "utf-8")
    paper = set()
    for width in (1280, 390):
        for dark in (False, True):
            look(browser, file, width, dark=dark)
            paper.add(browser.value("getComputedStyle(document.body).backgroundColor"))
            browser.screenshot(PICTURES / f"{task}-{width}-{'dark' if dark else 'light'}.png")
    assert len(paper) == 2


@pytest.mark.parametrize("case", LAYOUT)
def test_odd_pages_keep_their_shape(browser, case, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page(pages.ODD[case]()), "utf-8")
    for width in (1280, 390):
        look(browser, file, width, dark=False)


def test_faults_would_be_seen(browser, tmp_path):
    """The checks see what they are there for."""
    file = tmp_path / "bad.html"
    script = "<script>console.error(1); nothing()</script>"
    body = f"<div style='width:900px'>wide</div><img src='http://127.0.0.1:9/x.png'>{script}"
    file.write_text(f"<!DOCTYPE html><body>{body}</body>", "utf-8")
    browser.open(file, width=390, dark=False)
    assert browser.value("document.documentElement.scrollWidth") > 390
    assert len(browser.said("Runtime.consoleAPICalled")) == 1
    assert len(browser.said("Runtime.exceptionThrown")) == 1
    assert len(browser.said("Network.requestWillBeSent")) == 2


def test_a_live_page_becomes_the_report(browser):
    live = Live("live")
    try:
        browser.open(live.address, width=1280, dark=False)
        assert "training and tuning" in browser.value("document.body.innerText")
        live.show(pages.regression())
        for _ in range(50):
            heights = browser.value(HEIGHTS)
            if heights:
                break
            time.sleep(0.1)
        assert list(heights) == list(SHORT)
        live.progress("sample", 0.4, "1 min left")
        for _ in range(50):
            if "sample" in browser.value("document.getElementById('progress').innerText"):
                break
            time.sleep(0.1)
        assert browser.value("document.getElementById('progress').innerText") == "sample: 40 %, 1 min left"
        assert browser.value("document.querySelector('#progress i').style.width") == "40%"
        assert browser.value(COLLISIONS) == []
        assert browser.said("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded") == []
        asked = {event["request"]["url"] for event in browser.said("Network.requestWillBeSent")}
        assert asked <= {live.address, live.address + "stream"}
        browser.screenshot(PICTURES / "live-1280-light.png")
    finally:
        live.end()
