"""The page in the Chromium of the machine, by mouse and by keyboard alone: each view opens, and nothing is refused."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.cli.ui.browser import (
    MISSING,
    REASON,
    Keyboard,
    Mouse,
    Person,
    chromium,
    focusable,
    problems,
    served,
    size,
    visit,
)
from tests.cli.ui.large_pipeline import VIEWS, put_many
from tests.cli.ui.shop_folder import MANIFEST, SECRET, put_shop
from tests.local_server import QuietHandler, answering

pytestmark = pytest.mark.skipif(MISSING, reason=REASON)

_FURTHER = {
    "older runs": f"{VIEWS['pipeline']}&runs=1.90.2&before=2100-01-01T00:00:00#runs",
    "no such stream of a connector": "/build?connector=shop.py&config=config.json",
    "other partitions": f"{VIEWS['stream']}&from={{%22shop%22:%22s0005#partitions",
}
_EACH = {**VIEWS, **_FURTHER}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        put_many(put_shop(folder, patch), partitions=20_000, runs=300)
    (folder / "manifest.yaml").write_text(MANIFEST)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served(folder) as (address, _):
        yield address


@pytest.fixture(scope="module")
def opened(address: str) -> Iterator[Chrome]:
    with chromium() as browser:
        visit(browser, address)
        yield browser


@pytest.fixture
def browser(opened: Chrome, address: str) -> Chrome:
    """The list of pipelines, and nothing that was said before."""
    visit(opened, address)
    assert problems(opened) == []
    return opened


@pytest.mark.parametrize("person_of", [Mouse, Keyboard])
def test_each_view_is_played_without_an_error_of_the_console(browser: Chrome, person_of: type[Person]) -> None:
    person = person_of(browser)
    assert "token" not in browser.current_url
    person.link("Build")
    person.link("Build")
    _see(browser, "Build", "Reads the first records")
    person.link("Pipelines")
    person.link("Pipelines")
    person.link("shop")
    _see(browser, "Pipeline shop", "resumes where the last one stopped")
    _play_pipeline(person)
    person.link("visits")
    _see(browser, "Stream visits", "the door is shut, says ****")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".timeline circle.interrupted")) == 1
    (resume,) = browser.find_elements(By.CSS_SELECTOR, ".timeline path.resume")
    assert resume.size["width"] > 0
    person.link("shop")
    person.link("orders")
    _see(browser, "Stream orders", "20,000 partitions")
    _play_stream(person)
    person.link("Build")
    _play_read(person)
    _play_draft(person)
    person.look()

    reached_by_tab_only = {each for each in person.seen if each[1].startswith(("div", "pre", "a #main"))}
    assert person.seen - reached_by_tab_only - person.used == set()
    assert problems(browser) == []


def _play_pipeline(person: Person) -> None:
    browser = person.browser
    newest = _first_run(browser)
    person.link("runs", new=False)
    person.link("older runs")
    assert _first_run(browser) != newest
    assert len(browser.find_elements(By.CSS_SELECTOR, "[aria-label='the runs'] tbody tr")) == 50
    person.link("newest runs")
    assert _first_run(browser) == newest
    for link in ("Build", "Pipelines"):
        person.link(link)
        person.back()


def _play_stream(person: Person) -> None:
    browser = person.browser
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg:not(.key) rect")) == 1000
    assert "and 180 more" in browser.find_element(By.ID, "main").text
    for link, first in {"the next ones": 1000, "the ones before": 0}.items():
        person.link(link)
        assert _first_partition(browser) == f'{{"shop":"s{first:07}"}}'
    person.fill(**{"from": '{"shop": "s0012345"}'})
    person.press("Go", new=True)
    assert _first_partition(browser) == '{"shop":"s0012345"}'
    person.press("as a list")
    assert browser.find_element(By.CSS_SELECTOR, "details li").text.startswith('{"shop":"s0012345"}: at ')
    person.link("the first ones")
    person.link("timeline", new=False)
    person.link("history", new=False)
    person.link("older commits")
    person.link("newest commits")
    for link in ("All pipelines", "Build"):
        person.link(link)
        person.back()


def _play_read(person: Person) -> None:
    browser = person.browser
    person.link("manifest.yaml")
    _see(browser, "Build", "Streams of manifest.yaml")
    person.fill(connector="shop.py", config="config.json", stream="")
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    person.press("Read", new=True)
    person.link("orders")
    _see(browser, "Build", "2 records, the whole stream")
    person.press("GET https://api.test/orders")
    assert browser.find_element(By.CSS_SELECTOR, "section[aria-label=requests] pre").is_displayed()
    person.fill(stream="visits")
    person.press("Read", new=True)
    _see(browser, "Build", "5 records")
    _see(browser, "Build", "An API that fails, or tells to wait, is asked again")
    person.link("Pipelines")
    person.link("Build")


class _Api(QuietHandler):
    """Has two items."""

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        self.answer(200, b'[{"id": 1}, {"id": 2}]')


def _play_draft(person: Person) -> None:
    browser, name = person.browser, type(person).__name__.lower()
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), _Api)) as api:
        person.fill(name=name, openapi="", curl=f"curl 'http://127.0.0.1:{api.server_port}/items'")
        person.tick("send")
        person.press("Draft", new=True)
    _see(browser, "Build", f"Streams of {name}/manifest.yaml")
    drafted = str(browser.find_element(By.NAME, "text").get_property("value"))
    assert "primary_key: id" in drafted
    person.fill(text=drafted.replace("path: /items", "path: [/items]"))
    person.press("Save", new=True)
    assert "requester.path: " in browser.find_element(By.ID, "main").text
    person.fill(text=re.sub(r"( +)path: /items", r"\1request_headers: {X-Api-Key: planted-4711}\n\g<0>", drafted))
    person.press("Save", new=True)
    assert "request_headers.X-Api-Key: found a credential" in browser.find_element(By.ID, "main").text
    person.fill(text=drafted.replace("name: items", "name: goods").replace("[items]", "[goods]"))
    person.press("Save", new=True)
    assert browser.find_element(By.LINK_TEXT, "goods").is_displayed()


@pytest.mark.parametrize("view", _EACH)
def test_tab_leads_through_a_view_in_order_and_past_what_all_views_have(browser: Chrome, view: str) -> None:
    visit(browser, _at(browser, _EACH[view].partition("#")[0]))
    person = Keyboard(browser)

    order = [*iter(person.tab, None)]

    assert order == focusable(browser)
    assert order[0].get_property("textContent") == "Skip to the content"
    visit(browser, browser.current_url)
    person.tab()
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert browser.switch_to.active_element.get_attribute("id") == "main"
    behind = person.tab()
    assert behind is not None
    assert behind.find_elements(By.XPATH, "ancestor::main")
    ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    assert browser.switch_to.active_element.text == "Build"
    assert problems(browser) == []


def test_who_turns_a_page_by_keyboard_goes_on_there(browser: Chrome) -> None:
    person = Keyboard(browser)
    visit(browser, _at(browser, VIEWS["pipeline"]))

    person.link("older runs")
    again = person.tab()
    further = person.tab()

    assert again is not None
    assert further is not None
    assert (again.text, further.text) == ("newest runs", "older runs")


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_fits_a_narrow_window_and_arrows_scroll_its_tables(browser: Chrome, view: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        visit(browser, _at(browser, _EACH[view]))

        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        for region in browser.find_elements(By.CLASS_NAME, "wide"):
            if browser.execute_script(_SCROLLS, region):
                _wait_for(browser, partial(_scroll_by_key, browser, region))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert problems(browser) == []


def _scroll_by_key(browser: Chrome, region: WebElement) -> bool:
    """Whether a region has moved; a key that came while the page was drawn is pressed once more."""
    browser.execute_script("arguments[0].focus()", region)
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    return bool(region.get_property("scrollLeft"))


_SCROLLS = "return arguments[0].checkVisibility() && arguments[0].scrollWidth > arguments[0].clientWidth"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_text_can_be_read_in_light_and_in_the_dark(browser: Chrome, view: str, scheme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    visit(browser, _at(browser, _EACH[view]))

    assert browser.execute_script(_UNREADABLE) == []


_UNREADABLE = """
const parsed = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
const behind = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
return [...document.querySelectorAll("main *")].filter(each => {
    if (![...each.childNodes].some(node => node.nodeType == 3 && node.data.trim())) return false;
    if (!each.checkVisibility()) return false;
    const style = getComputedStyle(each), colour = parsed(each.closest("svg") ? style.fill : style.color);
    const [low, high] = [light(colour), light(behind)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05) < 4.5;
}).map(each => each.outerHTML);
"""


@pytest.mark.parametrize(
    ("view", "nodes", "bytes_"),
    [
        ("pipelines", 50, 2_000),
        ("pipeline", 1_500, 60_000),
        ("older runs", 1_500, 60_000),
        ("stream", 4_000, 260_000),
        ("other partitions", 4_000, 260_000),
        ("test read", 150, 8_000),
    ],
)
def test_a_view_is_as_large_as_what_it_shows_however_much_there_is(
    browser: Chrome, view: str, nodes: int, bytes_: int
) -> None:
    visit(browser, _at(browser, _EACH[view]))

    found = size(browser)

    assert (found.nodes <= nodes, found.bytes <= bytes_) == (True, True), found
    assert SECRET not in browser.page_source
    assert problems(browser) == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/pipeline?file=missing.yaml", "missing.yaml"),
        ("/pipeline", "the address lacks 'file'; start from the list of pipelines"),
        ("/stream?file=pipeline.yaml&stream=order", "did you mean 'orders'"),
        ("/build?connector=shop.py&config=config.json&stream=visit", "visit"),
    ],
)
def test_an_error_is_told_in_the_view_and_the_way_on_is_there(browser: Chrome, path: str, why: str) -> None:
    visit(browser, _at(browser, path))

    assert why in browser.find_element(By.CSS_SELECTOR, "[role=alert]").text
    assert len(problems(browser)) == 2, "the answer's status, once by the console and once by the network"
    Keyboard(browser).link("Pipelines")
    _see(browser, "Pipelines", "shop")
    assert problems(browser) == []


_PLANTED = {
    "console.error('planted error')": "planted error",
    "console.warn('planted warning')": "planted warning",
    "setTimeout(() => { throw new Error('planted exception') })": "planted exception",
    "document.body.append(Object.assign(document.createElement('script'), {text: 'alert(1)'}))": "script-src",
    "document.body.setAttribute('style', 'color: red')": "style-src",
    "document.body.append(Object.assign(new Image(), {src: '/static/planted.png'}))": "answered 404",
    "document.body.append(Object.assign(new Image(), {src: 'https://planted.test/a.png'}))": "img-src",
    "fetch('/')": "connect-src",
}


def test_what_a_page_does_wrong_is_noticed(address: str) -> None:
    with chromium() as browser:
        visit(browser, address)
        assert problems(browser) == []

        for planted, found in _PLANTED.items():
            browser.execute_script(planted)

            _wait_for(browser, partial(_is_among_problems, browser, found))


def _at(browser: Chrome, path: str) -> str:
    return "/".join(browser.current_url.split("/")[:3]) + path


def _is_among_problems(browser: Chrome, text: str) -> bool:
    return any(text in each for each in problems(browser))


def _wait_for(browser: Chrome, condition: Callable[[], object]) -> None:
    WebDriverWait(browser, 20).until(lambda _: condition())


def _see(browser: Chrome, heading: str, text: str) -> None:
    assert browser.find_element(By.TAG_NAME, "h1").text == heading
    assert text in browser.find_element(By.ID, "main").text


def _first_run(browser: Chrome) -> str:
    return browser.find_element(By.CSS_SELECTOR, "[aria-label='the runs'] code").text


def _first_partition(browser: Chrome) -> str:
    title = browser.find_element(By.CSS_SELECTOR, "svg:not(.key) rect title").get_property("textContent")
    return str(title).partition(": ")[0]
