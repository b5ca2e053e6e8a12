"""Opens the built plugin in Headlamp's pages, in Debian's chromium against a sandbox: fails on errors, and writes images/.

Run by `make headlamp-proof`. harness/ answers in place of Headlamp's server.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Page, Route, async_playwright

from headlamp import record

PLUGIN = Path(__file__).parent
IMAGES = PLUGIN / "images"
LARGEST = 150_000
"""Bytes of an image."""
WIDTH, HEIGHT = 1300, 1000
TIMEOUT = 60.0
PORT = 4555
ORIGIN = f"http://127.0.0.1:{PORT}"

PAGES = {
    "list": ("plimsoll/policies", "Violated"),
    "policy": ("plimsoll/policies/shop/responsive", "disk_wait_ratio is greater than 30"),
    "node": ("nodes/node-a", "disk_wait_ratio GreaterThan 30"),
    "pod": ("pods/shop/web-2", "policy shop/responsive refuses 1 of 1 feasible node"),
}
"""Name -> path below the cluster, and a text that the plugin draws there."""
KEPT = ("policy", "node")
"""Pages of which images/ has the plugin's section."""


async def main() -> int:
    """Open all pages, also in dark and without the evaluator; return the exit status."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not on PATH: apt install chromium", file=sys.stderr)
        return 1
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        async with (
            record.world(Path(folder)) as cluster,
            served(cluster.endpoints.api),
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            for scheme in ("dark", "light"):
                size = {"width": WIDTH, "height": HEIGHT}
                context = await browser.new_context(color_scheme=scheme, viewport=size)
                for name in PAGES:
                    findings += await opened(context, name, keep=scheme == "light")
                await context.close()
            findings += await without_evaluator(browser)
            await with_another_service(browser)
            await browser.close()
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


async def opened(context: Any, name: str, *, keep: bool) -> list[str]:
    """Open a page, and write its image; return what went wrong."""
    path, text = PAGES[name]
    page = await context.new_page()
    findings: list[str] = []
    page.on("pageerror", lambda error: findings.append(f"{name}: {error}"))
    await page.route("**/*", at_home)
    await page.goto(f"{ORIGIN}/c/sandbox/{path}")
    await page.get_by_text(text).first.wait_for(timeout=TIMEOUT * 1000)
    if keep and name in KEPT:
        section = page.get_by_role("heading", name="Plimsoll", exact=True).first
        await section.wait_for()
        file = IMAGES / f"{name}.png"
        await clipped(page, section, file)
        if file.stat().st_size > LARGEST:
            findings.append(f"{file} has more than {LARGEST} bytes")
    await page.close()
    return findings


async def clipped(page: Page, section: Any, file: Path) -> None:
    """Write an image of the window from a heading on."""
    await section.evaluate("heading => heading.scrollIntoView()")
    await asyncio.sleep(1)  # the sidebar's transition ends
    await page.screenshot(path=file)


async def without_evaluator(browser: Any) -> list[str]:
    """Open a node's page while the proxy to the evaluator fails; return what went wrong."""
    page = await browser.new_page()

    async def failed(route: Route) -> None:
        body = '{"kind": "Status", "message": "no endpoints available for service"}'
        await route.fulfill(status=503, content_type="application/json", body=body)

    await page.route("**/*", at_home)
    await page.route("**/proxy/nodes/**", failed)
    await page.goto(f"{ORIGIN}/c/sandbox/nodes/node-a")
    await page.get_by_text("kubectl -n plimsoll get pods").wait_for(timeout=TIMEOUT * 1000)
    shown = await page.get_by_text("plimsoll.io/shop.responsive=violating").count()
    await page.close()
    return [] if shown else ["without the evaluator: the node's taint is not shown"]


async def with_another_service(browser: Any) -> None:
    """Enter the name of another Service in the plugin's settings: the section then names it. Raises TimeoutError."""
    page = await browser.new_page()
    page.set_default_timeout(TIMEOUT * 1000)
    await page.route("**/*", at_home)
    await page.goto(f"{ORIGIN}/settings/plugins/headlamp-plimsoll")
    await page.get_by_label("Service").fill("other")
    await page.get_by_role("button", name="Save").click()
    # Headlamp stores settings half a second later.
    await page.wait_for_function("localStorage.getItem('pluginConfigs')?.includes('other')")
    await page.goto(f"{ORIGIN}/c/sandbox/nodes/node-a")
    await page.get_by_text('services "other" not found').wait_for()
    await page.close()


async def at_home(route: Route) -> None:
    """Permit requests to the harness only: outside of Headlamp's server, icons would come from elsewhere."""
    await (route.continue_() if route.request.url.startswith(ORIGIN) else route.abort())


@contextlib.asynccontextmanager
async def served(api: str) -> AsyncIterator[None]:
    """Serve the built harness; requests to the cluster go to an API server."""
    vite = PLUGIN / "node_modules/.bin/vite"
    command = (str(vite), "preview", "--config", "harness/vite.config.mjs", "--port", str(PORT), "--strictPort")  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, cwd=PLUGIN, env={**os.environ, "PLIMSOLL_API": api}
    )
    try:
        async with asyncio.timeout(TIMEOUT), aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientConnectionError):
                    async with session.get(f"{ORIGIN}/config"):
                        break
                await asyncio.sleep(0.2)
        yield
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
