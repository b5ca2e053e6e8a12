"""The agent's page: collectors, text files and rules of this node, as HTML and as JSON.

Imported for the first request of the page, like Jinja2, so that an agent without visitors keeps their memory free.
"""

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from agent.rule_results import RuleResults
from agent.scrape.runner import CollectorRun, CollectorRunner
from agent.scrape.self_metrics import SelfMetrics
from plimsoll import VERSION
from plimsoll.fairlock import FairLock
from plimsoll.html import headers
from plimsoll.html.negotiation import prefers_json
from plimsoll.html.templates import Templates
from plimsoll.http.types import Request, Response, preference

JSON_PATH = "/index.json"
_STATES = ("failed", "pending", "ok", "absent")
_WAITING = 3
"""Requests that may wait while a page is made."""
_RULES = 1_000
_FILES = 1_000
"""Rules, and text files with errors, on the page at most."""


class LandingPage:
    """Makes the page of one agent in a thread, one at a time."""

    def __init__(
        self,
        runner: CollectorRunner,
        own: SelfMetrics,
        recorder: RuleResults | None,
        *,
        node: str,
        telemetry_path: str,
    ) -> None:
        self._runner = runner
        self._own = own
        self._recorder = recorder
        self._node = node
        self._telemetry_path = telemetry_path
        self._templates = Templates(Path(__file__).parent / "templates")
        self._making = FairLock(_WAITING)

    async def answer(self, request: Request, *, ready: bool) -> Response:
        """Return the page, or its JSON if the path or the Accept header wants that. Raises TooManyWaitError."""
        async with self._making.hold():
            if _wants_json(request):
                body = await asyncio.to_thread(self._json, ready)
                return Response(HTTPStatus.OK, body, "application/json", headers.UNCACHED)
            await self._templates.load()
            body = await asyncio.to_thread(self._html, ready)
            return Response(HTTPStatus.OK, body, "text/html; charset=utf-8", headers.PAGE)

    def document(self, *, ready: bool) -> Mapping[str, Any]:
        """Return what the page shows, as JSON values. Blocking."""
        omissions = list(self._runner.omissions())
        page = {
            "node": self._node,
            "version": VERSION,
            "ready": ready,
            "metrics": self._telemetry_path.lstrip("/"),
            "stream": self._own.stream,
            "collectors": self._collectors(),
            "files": [
                {"file": omission.file, "reason": omission.reason, "message": omission.text}
                for omission in omissions[:_FILES]
            ],
            "rules": None if self._recorder is None else self._recorder.document(_RULES),
        }
        more = len(omissions) - _FILES
        return {**page, "filesMore": more} if more > 0 else page

    def _collectors(self) -> list[Mapping[str, Any]]:
        now, runs = self._runner.now, self._runner.runs
        rows = [_collector(name, runs.get(name), now) for name in self._runner.names]
        return sorted(rows, key=lambda row: (_STATES.index(row["state"]), row["name"]))

    def _json(self, ready: bool) -> bytes:
        return json.dumps(self.document(ready=ready), indent=1).encode() + b"\n"

    def _html(self, ready: bool) -> bytes:
        values = {"root": "./", "title": self._node, "json": JSON_PATH.lstrip("/")}
        return self._templates.text(
            "landing.html", {**values, **self.document(ready=ready)}
        ).encode(errors="replace")


def _collector(name: str, run: CollectorRun | None, now: float) -> Mapping[str, Any]:
    if run is None:
        return {"name": name, "state": "pending"}
    entry = {
        "name": name,
        "state": "absent" if run.absent else "failed" if run.error else "ok",
        "durationSeconds": round(run.seconds, 6),
        "ageSeconds": round(max(0.0, now - run.ended), 3),
    }
    return {**entry, "message": run.error} if run.error else entry


def _wants_json(request: Request) -> bool:
    return request.path == JSON_PATH or prefers_json(preference(request.headers, "accept"))
