"""The page in a real browser: Chromium without a network. `make test-browser` runs this.

Needs Debian's packages chromium and chromium-driver, and the extra `browser`.
"""

import json
import shutil
from pathlib import Path

import pytest

from metaevo.commands.compare import main
from tests.metaevo.comparison.compare_runs.conftest import write_run

pytestmark = pytest.mark.browser

HOSTILE = "</script><img src=x onerror=h=1>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "a", 100.0, rate=0.1, extra={"note": HOSTILE})
    write_run(root / "b", 130.0, rate=0.1)
    write_run(root / "c", 60.0, rate=0.5, seeds=4)
    assert main([str(root), "--output", str(root / "out")], description=None) == 0
    return root / "out" / "index.html"


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory):
    selenium = pytest.importorskip("selenium.webdriver")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.fail("needs Debian's packages chromium and chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = binary
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--window-size=1200,1000",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver_of = selenium.Chrome(options=options, service=service.Service(driver))
    try:
        driver_of.execute_cdp_cmd("Network.enable", {})
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        driver_of.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        driver_of.get(page.as_uri())
        yield driver_of
    finally:
        driver_of.quit()


def drawn(browser, plot: str = "curves"):
    """What Plotly shows: name and visibility of every line that is in the legend."""
    return browser.execute_script(
        "return document.getElementById(arguments[0]).data"
        ".filter(t => t.showlegend !== false).map(t => [t.name, t.visible])",
        plot,
    )


def choose(browser, name: str, text: str) -> None:
    """Choose an entry of a control by its text."""
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", f"choose-{name}")).select_by_visible_text(text)


def test_the_page_makes_no_requests_and_logs_no_errors(browser, page):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    # Chromium's own start page has an address of its own.
    requests = [each["request"]["url"] for each in sent if each["documentURL"] == page.as_uri()]
    outside = [url for url in requests if url != page.as_uri() and not url.startswith("data:")]
    assert page.as_uri() in requests  # the log does record requests
    assert outside == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_hostile_names_are_text(browser):
    assert browser.execute_script("return window.h") is None
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    table = browser.find_element("css selector", "main table").text
    assert "<img src=x" in table
    legend = browser.find_element("css selector", "#curves .legend").text
    assert "</script>" in legend


def test_groups_are_switched_in_the_browser(browser):
    choose(browser, "grouping", "hyperparams.learning_rate")
    assert [name for name, _ in drawn(browser)] == [
        "learning_rate=0.1 (12)",
        "learning_rate=0.5 (4)",
    ]
    assert len(drawn(browser, "profile")) == 2
    choose(browser, "lines", "single seeds")
    lines = browser.execute_script("return document.getElementById('curves').data.length")
    assert lines == 16
