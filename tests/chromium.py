"""Opens pages in the machine's Chromium, driven by playwright, and records what goes wrong in it.

Debian's package is driven by `executable_path`: playwright's own browsers are not downloaded.
"""

import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE

_MILLISECONDS = PATIENCE * 1000


@dataclass
class Tab:
    """A page in the browser with the URLs it requested, its errors (console, uncaught, failed requests) and dialogs."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def failed(self, request: Any) -> None:
        """Note a request without a response, except one that ended because the next page was opened."""
        if request.failure != "net::ERR_ABORTED":
            self.errors.append(f"{request.url}: {request.failure}")

    def others(self, origin: str) -> list[str]:
        """Return the requests to other origins."""
        inside = (origin, "data:")
        return [url for url in self.requests if not url.startswith(inside)]

    async def show(self, url: str) -> None:
        """Open a URL and wait until it is drawn; its errors are in `errors`."""
        await self.page.goto(url, timeout=_MILLISECONDS, wait_until="load")

    async def stand_still(self) -> None:
        """Stop the page's refresh, which would replace what is being looked at."""
        await self.page.evaluate("document.querySelector('header button')?.click()")

    async def overflow(self) -> int:
        """Return the CSS pixels by which the page is wider than the window."""
        script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(await self.page.evaluate(script))


def origin(url: str) -> str:
    """Return the scheme, host and port of a URL, with a slash."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"


@contextlib.asynccontextmanager
async def launched() -> AsyncIterator[Any]:
    """Run a browser; the test is skipped if the machine has none."""
    api = pytest.importorskip("playwright.async_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not on PATH")
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium,
            # Pages are not hostile programs, and CI runs as root in containers with a small /dev/shm.
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            timeout=_MILLISECONDS,
        )
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def tab(browser: Any, **options: Any) -> AsyncIterator[Tab]:
    """Open a tab in a context of its own; `options` are those of playwright's new_context()."""
    context = await browser.new_context(**options)
    context.set_default_timeout(_MILLISECONDS)
    try:
        page = await context.new_page()
        found = Tab(page)
        page.on("request", lambda request: found.requests.append(request.url))
        page.on("requestfailed", found.failed)
        page.on("console", lambda message: found.errors.append(message.text))
        page.on("pageerror", lambda error: found.errors.append(str(error)))

        async def dismiss(dialog: Any) -> None:
            found.dialogs.append(dialog.message)
            await dialog.dismiss()

        page.on("dialog", dismiss)
        yield found
    finally:
        await context.close()
