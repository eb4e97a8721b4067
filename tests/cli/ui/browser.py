"""The page in the Chromium of the machine: a person at its mouse or its keyboard, and what went wrong meanwhile."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

MISSING = shutil.which("chromium") is None or shutil.which("chromedriver") is None
REASON = "Chromium is on no package index; Debian's packages `chromium` and `chromium-driver` bring it"
_MOST_TABS = 400
_COMPLETE = "return document.readyState == 'complete'"
_LOGS = {"browser": "ALL", "performance": "ALL"}
_FOCUSABLE = "a[href], button, input:not([type=hidden]), summary, [tabindex='0']"
_SIGNATURES = """
return [...document.querySelectorAll(arguments[0])].filter(each => each.checkVisibility()).map(each => {
    if (each.tagName == "A") {
        const there = new URL(each.href);
        const here = there.pathname + there.search == location.pathname + location.search;
        if (there.hash && here) return "a " + there.hash;
        return ["a", there.pathname, [...there.searchParams.keys()].join(" "), there.hash].join(" ");
    }
    return [each.tagName.toLowerCase(), each.name || each.ariaLabel || ""].join(" ").trim();
});
"""
"""What the elements of a view are, without what differs from row to row."""


@contextmanager
def chromium(*arguments: str) -> Iterator[Chrome]:
    """A browser without a window."""
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", *arguments):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", _LOGS)
    with Chrome(options, ChromeService(shutil.which("chromedriver"))) as browser:
        yield browser


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """`spark-cdk ui` in a folder: the address that it prints, and its process."""
    command = [sys.executable, "-m", "cdk", "ui", "--allow-custom-code"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip(), server.pid
        finally:
            server.terminate()


def visit(browser: Chrome, address: str) -> None:
    """Open an address, and wait until all of it is there: its styles, too."""
    browser.get(address)
    # On a busy machine the driver goes on before: in 18 of 60 visits the document was half parsed, without its styles.
    _wait(browser, _COMPLETE)


def problems(browser: Chrome) -> list[str]:
    """What the console has said since the last look, and the requests that failed or were refused."""
    said, happened = (browser.get_log(name) for name in _LOGS)  # type: ignore[no-untyped-call] # selenium has no types there
    found = [f"console: {entry['message']}" for entry in said]
    for event in (json.loads(entry["message"])["message"] for entry in happened):
        match event:
            case {"method": "Network.loadingFailed", "params": {"errorText": text}}:
                found.append(f"failed: {text}")
            case {"method": "Network.responseReceived", "params": {"response": {"status": int(status), "url": url}}}:
                found += [f"answered {status}: {url}"] if status >= 400 else []
            case _:
                pass
    return found


class Size(NamedTuple):
    """What a view costs the browser. nodes: elements. bytes: of its answer. seconds: until it was loaded."""

    nodes: int
    bytes: int
    seconds: float


def size(browser: Chrome) -> Size:
    """What the view that is open costs."""
    nodes, bytes_, milliseconds = browser.execute_script("""
        const [load] = performance.getEntriesByType("navigation");
        return [document.querySelectorAll("*").length, load.decodedBodySize, load.loadEventEnd];
    """)
    return Size(nodes, bytes_, milliseconds / 1000)


class Person:
    """Somebody who uses the page. used, seen: which elements, each as its view's path and what it is."""

    ticks: Sequence[str] = ()
    """Keys that tick a box."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser
        self.used: set[tuple[str, str]] = set()
        self.seen: set[tuple[str, str]] = set()

    def use(self, element: WebElement, *keys: str) -> None:
        """Activate an element, or type keys there."""
        raise NotImplementedError

    def link(self, text: str, *, new: bool = True) -> None:
        """Follow a link by its text. new: it leads to another document."""
        self._click(self.browser.find_element(By.LINK_TEXT, text), new=new)

    def back(self) -> None:
        """Go back to the view before."""
        self.browser.back()
        _wait(self.browser, _COMPLETE)

    def press(self, text: str, *, new: bool = False) -> None:
        """Press a button, or what opens more, by the beginning of its text."""
        buttons = self.browser.find_elements(By.CSS_SELECTOR, "button, summary")
        self._click(next(each for each in buttons if each.text.startswith(text)), new=new)

    def fill(self, **texts: str) -> None:
        """Type into fields, by their names."""
        for name, text in texts.items():
            field = self.browser.find_element(By.NAME, name)
            self._note(field)
            self.use(field, Keys.END)
            whole = ActionChains(self.browser, duration=0).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL)
            whole.send_keys(text or Keys.BACKSPACE).perform()
            assert field.get_property("value") == text

    def tick(self, name: str) -> None:
        """Choose what a box stands for."""
        box = self.browser.find_element(By.NAME, name)
        self._note(box)
        self.use(box, *self.ticks)
        assert box.is_selected()

    def look(self) -> None:
        """Look at all that can be used in the view."""
        self.seen |= {(self._path(), each) for each in self._signatures(_FOCUSABLE)}

    def _click(self, element: WebElement, *, new: bool) -> None:
        self.look()
        self._note(element)
        self.browser.execute_script("window.before = true")
        self.use(element)
        if new:
            _wait(self.browser, f"{_COMPLETE} && !window.before")

    def _note(self, element: WebElement) -> None:
        self.browser.execute_script("arguments[0].dataset.chosen = ''", element)
        (signature,) = self._signatures("[data-chosen]")
        self.browser.execute_script("delete arguments[0].dataset.chosen", element)
        self.used.add((self._path(), signature))

    def _signatures(self, selector: str) -> list[str]:
        return list(self.browser.execute_script(_SIGNATURES, selector))

    def _path(self) -> str:
        path = str(self.browser.execute_script("return location.pathname"))
        # A form that is refused is there again, in the same view.
        return "/build" if path in {"/draft", "/save"} else path


class Mouse(Person):
    """Clicks where an element is."""

    def use(self, element: WebElement, *keys: str) -> None:
        actions = ActionChains(self.browser, duration=0).scroll_to_element(element).move_to_element(element).click()
        (actions.send_keys(*keys) if keys else actions).perform()


class Keyboard(Person):
    """Goes to an element by Tab alone, and sees that it is there; Enter activates it."""

    ticks = (Keys.SPACE,)

    def use(self, element: WebElement, *keys: str) -> None:
        self.reach(element)
        ActionChains(self.browser, duration=0).send_keys(*(keys or [Keys.ENTER])).perform()

    def reach(self, element: WebElement) -> None:
        """Go to an element by Tab."""
        for _ in range(_MOST_TABS):
            self.tab()
            if self.browser.switch_to.active_element == element:
                self._note(element)
                return
        raise AssertionError(f"Tab does not lead to {element.get_property('outerHTML')}")

    def tab(self) -> WebElement | None:
        """Go to the next element, the focus of which must be visible; None: the end of the page."""
        ActionChains(self.browser, duration=0).send_keys(Keys.TAB).perform()
        active = self.browser.switch_to.active_element
        if active.tag_name == "body":
            return None
        style: dict[str, Any] = self.browser.execute_script(
            """
            const style = getComputedStyle(arguments[0]), box = arguments[0].getBoundingClientRect();
            return {outline: style.outlineStyle, width: parseFloat(style.outlineWidth),
                    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth};
            """,
            active,
        )
        assert style["outline"] != "none", active.text
        assert style["width"] >= 2, active.text
        assert style["inside"], active.text
        return active


def focusable(browser: Chrome) -> list[WebElement]:
    """What Tab is to reach, in the order of the document."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(each => each.checkVisibility())"
    return list(browser.execute_script(script, _FOCUSABLE))


def _wait(browser: Chrome, script: str) -> None:
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(script))
