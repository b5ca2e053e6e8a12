"""One browser for all tests of a process, one sandbox for the tests of a module, and the checks that every page has to pass."""

from pathlib import Path

import pytest
import pytest_asyncio

from tests import chromium

CHECKS = Path(__file__).with_name("checks.js").read_text()
WIDTHS = (360, 1440)
LOOP = {"scope": "module", "loop_scope": "session"}
"""Of what a module looks at: a sandbox that ran until the end of the process would take a core's time meanwhile."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    async with chromium.launched() as running:
        yield running


class Inspector:
    """Opens pages and collects findings."""

    def __init__(self, browser):
        self._browser = browser
        self.findings = []
        self.opened = 0

    async def look_at(self, *urls):
        """Open pages; look for errors and requests to other origins."""
        async with chromium.tab(self._browser) as tab:
            for url in urls:
                self.opened += 1
                await tab.show(url)
                self._note(url, "errors", tab.errors + tab.dialogs)
                self._note(url, "other origins", tab.others(chromium.origin(url)))

    async def inspect(self, *urls):
        """Open pages, each at two widths, in light and dark, and at 200 % text size; look for all that may be wrong."""
        async with chromium.tab(self._browser, viewport={"width": 1440, "height": 900}) as tab:
            for url in urls:
                self.opened += 1
                await tab.show(url)
                self._note(url, "errors", tab.errors + tab.dialogs)
                self._note(url, "other origins", tab.others(chromium.origin(url)))
                await tab.stand_still()
                # By the debugger's protocol: the page's own policy forbids scripts that it does not serve.
                await tab.page.evaluate(CHECKS)
                self._note(url, "structure", await tab.page.evaluate("checks.structure()"))
                await self._look(tab, url)

    async def _look(self, tab, url):
        page = tab.page
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            found = await page.evaluate("checks.contrast()")
            self._note(url, f"contrast in {scheme} mode", found)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 800})
            self._note(url, f"overflow at {width} px", await tab.overflow())
        # 200 %: half of the width in CSS pixels; and text alone at twice its size.
        await page.set_viewport_size({"width": 720, "height": 450})
        self._note(url, "overflow at 200 % zoom", await tab.overflow())
        await page.evaluate("document.documentElement.style.fontSize = '200%'")
        self._note(url, "overflow with text of 200 %", await tab.overflow())

    def _note(self, url, what, found):
        if found:
            self.findings.append(f"{url}: {what}: {found}")


@pytest.fixture
def inspector(browser):
    return Inspector(browser)


@pytest.fixture
def unreached(browser):
    """Return the controls of a page that the Tab key does not reach, by their number."""

    async def find(url):
        async with chromium.tab(browser) as tab:
            await tab.show(url)
            await tab.stand_still()
            await tab.page.evaluate(CHECKS)
            count = await tab.page.evaluate("checks.controls()")
            assert count
            reached = []
            for _ in range(count):
                await tab.page.keyboard.press("Tab")
                reached.append(await tab.page.evaluate("checks.focused()"))
            return set(map(str, range(count))) - set(reached)

    return find
