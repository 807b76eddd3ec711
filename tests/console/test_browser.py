"""Every page in a headless Chromium: nothing is refused by the CSP, nothing is asked of elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from odradek import Admin, Producer, TopicPartition
from odradek.console.server import ConsoleServer
from odradek.console.settings import ConsoleSettings
from odradek.testing import Broker
from odradek.util.clock import ManualClock
from waiting import WITHIN_S, until

from .conftest import TOKEN

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not installed"
)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """A Chromium in front of a console.

    Args:
        driver: of selenium.
        url: of the console.
        clock: of the console.
    """

    def __init__(self, driver: Any, url: str, clock: ManualClock) -> None:
        self.driver = driver
        self.url = url
        self.clock = clock

    def open(self, path: str) -> str:
        """Go to a page; return its heading."""
        self.driver.get(self.url + path)
        return self.heading()

    def heading(self) -> str:
        return " ".join(self.texts("h1"))

    def texts(self, css: str) -> list[str]:
        """The texts of elements, looked up at once: a page may be on its way to the next."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent.trim())"
        return list(self.driver.execute_script(script, css))

    def find(self, css: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def problems(self) -> list[str]:
        """What the browser's console has to say: what the CSP refuses, errors of scripts."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            # The page of an error has its status.
            if entry["level"] in ("SEVERE", "WARNING") and "Failed to load resource" not in entry["message"]
        ]

    def asked(self) -> set[str]:
        """The origins of everything that the page has loaded."""
        script = "return performance.getEntriesByType('resource').map(e => new URL(e.name).origin)"
        return set(self.driver.execute_script(script))

    def shot(self, name: str) -> None:
        """Keep a picture for people, in the folder that ODRADEK_SCREENSHOTS names."""
        folder = os.environ.get("ODRADEK_SCREENSHOTS")
        if folder:
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))


@pytest.fixture(scope="module")
def browser(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser that has logged in by the address that the console prints."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    settings = ConsoleSettings({"bootstrap_servers": broker.bootstrap_servers}, TOKEN)
    clock = ManualClock()
    with ConsoleServer(settings, clock=clock) as server:
        driver = webdriver.Chrome(options, webdriver.ChromeService(executable_path=DRIVER))
        try:
            browser = Browser(driver, server.url, clock)
            driver.get(f"{server.url}/login#{TOKEN.replace(' ', '%20')}")
            until(browser.heading, "the page of topics", holds=lambda text: text == "Topics")
            assert browser.driver.current_url == f"{server.url}/topics"
            yield browser
        finally:
            driver.quit()


@pytest.fixture
def sizes(browser: Browser) -> Callable[[str, str], None]:
    """Looks at a page on a small and a large screen, light and dark: nothing is wider than the screen."""

    def look(path: str, name: str) -> None:
        for width, scheme in ((390, "dark"), (1280, "light")):
            browser.driver.set_window_size(width, 900)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
            )
            browser.open(path)
            assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= width
            paper = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
            browser.shot(f"{name}-{scheme}")
            assert browser.problems() == []
            assert browser.asked() == {browser.url}

    return look


def test_topics(browser: Browser, broker: Broker, sizes: Callable[[str, str], None]) -> None:
    broker.create_topic("seen-by-people", 3)
    sizes("/topics", "topics")
    # By keyboard: "/" goes to the filter, Enter shows.
    browser.find("body").send_keys("/")
    browser.driver.switch_to.active_element.send_keys("by-people", Keys.ENTER)
    until(lambda: "filter=by-people" in browser.driver.current_url, "the filtered table")
    until(lambda: browser.texts("tbody th") == ["seen-by-people"], "one topic")
    # A filter with a name is kept in the browser, whatever the name is.
    browser.find("details.saved summary").click()
    browser.find("details.saved input").send_keys("<b>mine", Keys.TAB, Keys.ENTER)
    browser.open("/topics")
    assert browser.texts("details.saved a") == ["<b>mine"]
    link = browser.find("details.saved a").get_attribute("href")
    assert "filter=by-people" in link
    browser.open(link.removeprefix(browser.url))
    assert browser.texts("tbody th") == ["seen-by-people"]
    browser.driver.execute_script("localStorage.clear()")


def test_create_and_delete_by_keyboard(browser: Browser, sizes: Callable[[str, str], None]) -> None:
    sizes("/create-topic", "create-topic")
    browser.driver.switch_to.active_element.send_keys("by-hand", Keys.ENTER)
    until(browser.heading, "the new topic's page", holds=lambda text: text == "by-hand")
    sizes("/topics/by-hand", "topic")
    button = browser.find("form.danger button.danger")
    assert not button.is_enabled()
    browser.find("[data-confirm]").send_keys("by-hand")
    assert button.is_enabled()
    button.send_keys(Keys.ENTER)
    until(browser.heading, "the page of topics", holds=lambda text: text == "Topics")
    assert "by-hand has been deleted" in browser.texts(".notice.done")[0]


def test_groups(browser: Browser, broker: Broker, sizes: Callable[[str, str], None]) -> None:
    """A history grows under the eyes of whoever looks, and offsets are set by keyboard."""
    broker.create_topic("read-by-people", 2)
    partition = ("read-by-people", 0)
    with (
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        for _ in range(5):
            producer.send("read-by-people", b"x", partition=0).result(WITHIN_S)
        admin.alter_group_offsets("people", {partition: 1})
        browser.open("/groups/one?id=people")
        admin.alter_group_offsets("people", {partition: 3})
        browser.clock.advance(10_000)
        sizes("/groups/one?id=people", "group")
        sizes("/groups?filter=people", "groups")
        plot = browser.find("svg.drawn")
        assert "at first 4, at last 2" in plot.get_attribute("aria-label")
        browser.open("/groups/one?id=people")
        admin.alter_group_offsets("people", {partition: 4})
        browser.find("[data-refresh]").send_keys(Keys.ENTER)
        until(lambda: browser.texts("[data-live] strong"), "the new lag", holds=lambda texts: texts == ["1"])
        browser.find("form[action='/groups/reset'] button").send_keys(Keys.ENTER)
        until(browser.heading, "the preview", holds=lambda text: text.startswith("New offsets"))
        browser.shot("reset")
        browser.find("main button.danger").send_keys(Keys.ENTER)
        until(browser.heading, "the group's page", holds=lambda text: text == "people")
        assert admin.list_group_offsets("people")[TopicPartition(*partition)].offset == 0
        assert browser.problems() == []


def test_live(browser: Browser, broker: Broker, sizes: Callable[[str, str], None]) -> None:
    """A tail of 20,000 records that come within some seconds counts all of them, and keeps a hundred rows."""
    broker.create_topic("seen-live", 4)
    path = "/topics/seen-live/tail"
    sizes(path, "live-small")
    until(lambda: browser.texts("#tail-state"), "the stream", holds=lambda texts: texts == ["live"])
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5) as producer:
        for n in range(20_000):
            producer.send("seen-live", f'{{"n": {n}, "who": "<script>alert(1)</script>"}}')

    def told() -> list[str]:
        return [browser.texts(f"#tail-{name}")[0] for name in ("read", "behind", "left_out")]

    until(told, "all of them", holds=lambda texts: texts == ["20\u202f000", "0", "0"])
    assert 0 < len(browser.texts("tbody tr")) <= 100
    assert "<script>alert(1)" in browser.texts("tbody pre")[-1]
    browser.shot("live")
    browser.find("[data-pause]").send_keys(Keys.ENTER)
    assert browser.texts("#tail-state") == ["paused"]
    assert browser.problems() == []


def test_produce_by_keyboard(browser: Browser, broker: Broker, sizes: Callable[[str, str], None]) -> None:
    broker.create_topic("typed")
    sizes("/topics/typed/produce", "produce")
    browser.driver.switch_to.active_element.send_keys("by hand")
    browser.find("main button.main").send_keys(Keys.ENTER)
    until(lambda: browser.texts(".notice"), "the record", holds=lambda texts: "offset 0" in "".join(texts))
    browser.open("/topics/typed/messages")
    assert browser.texts("tbody pre") == ["by hand"]


def test_access_transactions_and_applications(browser: Browser, sizes: Callable[[str, str], None]) -> None:
    sizes("/access", "access")
    browser.find("form[action='/access/quota'] [name=client_id]").send_keys("shop")
    browser.find("form[action='/access/quota'] [name=value]").send_keys("1000", Keys.ENTER)
    until(lambda: browser.texts(".notice"), "the quota", holds=lambda texts: "is 1000 now" in "".join(texts))
    browser.find("a[href*='what=quota']").send_keys(Keys.ENTER)
    until(browser.heading, "the question", holds=lambda text: text == "Are you sure?")
    browser.find("main button.danger").send_keys(Keys.ENTER)
    until(
        lambda: browser.texts(".notice"), "its end", holds=lambda texts: "has no producer" in "".join(texts)
    )
    sizes("/transactions?hanging=1", "transactions")
    sizes("/applications", "applications")


def test_brokers(browser: Browser, sizes: Callable[[str, str], None]) -> None:
    sizes("/brokers", "brokers")
    sizes("/brokers/0", "broker")
    assert browser.find("tbody th code").text
