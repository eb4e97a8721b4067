"""The page in the Chromium of the machine, by keyboard alone: each view opens, and nothing is refused there."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.cli.ui.shop_folder import put_many, put_shop

pytestmark = pytest.mark.skipif(
    shutil.which("chromium") is None or shutil.which("chromedriver") is None,
    reason="Chromium is on no package index; Debian's packages `chromium` and `chromium-driver` bring it",
)

_SECONDS = 60
_MEANWHILE = (NoSuchElementException, StaleElementReferenceException)
"""What is looked at while the page changes."""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    put_many(put_shop(tmp_path, monkeypatch) / "tables" / "orders", runs=2_000, partitions=20_000)
    command = [sys.executable, "-m", "cdk", "ui", "--allow-custom-code"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture
def browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with Chrome(options, ChromeService(shutil.which("chromedriver"))) as browser:
        yield browser


def test_each_view_opens_by_keyboard_without_an_error_of_the_console(browser: Chrome, address: str) -> None:
    browser.get(address)
    assert "token" not in browser.current_url
    _press(browser, "shop")
    _see(browser, "Pipeline shop")
    browser.execute_script("window.same = true")
    newest = browser.find_element(By.CSS_SELECTOR, "#runs code").text
    _press(browser, "older runs")
    WebDriverWait(browser, _SECONDS, ignored_exceptions=_MEANWHILE).until(
        lambda _: browser.find_element(By.CSS_SELECTOR, "#runs code").text != newest
    )
    assert "runs=" in browser.current_url
    assert len(browser.find_elements(By.CSS_SELECTOR, "#runs tbody tr")) == 50
    assert browser.execute_script("return window.same"), "the part of the page was to be replaced, not the page"
    _press(browser, "visits")
    _see(browser, "Stream visits")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".timeline circle.interrupted")) == 1
    (resume,) = browser.find_elements(By.CSS_SELECTOR, ".timeline path.resume")
    assert resume.size["width"] > 0
    browser.back()
    _press(browser, "orders")
    _see(browser, "Stream orders")
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg rect")) == 1000
    assert len(browser.find_elements(By.CSS_SELECTOR, "*")) < 5000
    assert "and over 1,000 more" in browser.find_element(By.ID, "main").text
    _press(browser, "the next ones")
    WebDriverWait(browser, _SECONDS, ignored_exceptions=_MEANWHILE).until(
        lambda _: "from number 1,001 on" in browser.find_element(By.ID, "main").text
    )
    _press(browser, "Test read")
    _see(browser, "Test read")
    _press(browser, "", "[name=connector]", "shop.py", Keys.TAB, "config.json", Keys.TAB, "orders", Keys.ENTER)
    WebDriverWait(browser, _SECONDS, ignored_exceptions=_MEANWHILE).until(
        lambda _: browser.find_elements(By.CSS_SELECTOR, "[aria-label=records] pre")
    )
    log = browser.get_log("browser")  # type: ignore[no-untyped-call] # selenium has no types there
    assert [entry for entry in log if entry["level"] != "INFO"] == []


def _press(browser: Chrome, text: str, selector: str = "a", *keys: str) -> None:
    """Go by Tab to what has a text, and press keys there: Enter where none is named."""
    for _ in range(50):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        active = browser.switch_to.active_element
        if active.text == text and active in browser.find_elements(By.CSS_SELECTOR, selector):
            ActionChains(browser).send_keys(*(keys or [Keys.ENTER])).perform()
            return
    raise AssertionError(f"Tab does not lead to {text or selector!r}")


def _see(browser: Chrome, heading: str) -> None:
    WebDriverWait(browser, _SECONDS, ignored_exceptions=_MEANWHILE).until(
        lambda _: browser.find_element(By.TAG_NAME, "h1").text == heading
    )
