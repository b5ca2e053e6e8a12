"""Applies the web configuration: TLS, authentication and rate limit; reloads it when its files change.

The files are checked on each connection and request: changes of TLS apply to new connections, the rest to new requests.
A file that becomes invalid is logged and ignored. So is one that removes a protection entirely, which may be a truncated
file; it takes effect only after a restart.
"""

import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from agent.web import config as webconfig
from agent.web import tls
from agent.web.basic_auth import BasicAuth
from agent.web.config import WebConfig, WebConfigError
from collectors.shared import steadyfile
from collectors.shared.steadyfile import FileStamp
from plimsoll import logs
from plimsoll.fairlock import TooManyWaitError
from plimsoll.http.tls import Tls
from plimsoll.http.types import Handler, Request, Response
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)

_SETTLED = 0.05  # seconds after which another change of a file is certain to have another timestamp
_NANOSECONDS = 1_000_000_000

Stamps = dict[str, FileStamp | None]


@dataclass(frozen=True, slots=True)
class _ActiveConfig:
    """The configuration in force."""

    config: WebConfig
    tls: Tls | None


class WebGuard:
    """Guards all listeners. Used by the event loop's thread only."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Read the file. Raises WebConfigError if it cannot be used."""
        self._path = path
        self._now = now
        self._stamps: Stamps = {}
        self._settled = False
        self._last_error = ""
        self._passwords = BasicAuth()
        self._active = self._read()
        limit = self._active.config.rate_limit
        self._clock = clock
        self._bucket = TokenBucket(1 / limit.seconds, limit.burst) if limit.seconds else None

    def tls(self) -> Tls | None:
        """Return the TLS settings for a new connection; None for plain HTTP."""
        self._look()
        return self._active.tls

    def guard(self, handler: Handler, *, open_paths: Container[str]) -> Handler:
        """Return a handler that admits only authorized requests, and all requests for the open paths."""

        async def answer(request: Request) -> Response:
            self._look()
            config = self._active.config
            response = None if request.path in open_paths else await self._refusal(request, config)
            if response is None:
                response = await handler(request)
            return response.with_headers(config.http.headers)

        return answer

    async def _refusal(self, request: Request, config: WebConfig) -> Response | None:
        if self._bucket is not None and not self._bucket.take_now(self._clock()):
            return Response(HTTPStatus.TOO_MANY_REQUESTS, b"too many requests\n")
        given = request.headers.get("authorization", "")
        try:
            if not config.users or await self._passwords.fit(config.users, given):
                return None
        except TooManyWaitError:
            return Response(
                HTTPStatus.TOO_MANY_REQUESTS,
                b"too many passwords are being looked at\n",
                headers=(("retry-after", "1"),),
            )
        challenge = (("www-authenticate", "Basic"),)
        return Response(HTTPStatus.UNAUTHORIZED, b"unauthorized\n", headers=challenge)

    def _look(self) -> None:
        """Reload the file if it, or a file that it names, has changed."""
        before = self._stamps
        if self._settled and _stamps(before) == before:
            return
        try:
            self._active = self._read(self._active)
        except WebConfigError as error:
            if str(error) != self._last_error:
                log.error("web config is invalid; keeping the previous one", reason=str(error))
            self._last_error = str(error)
            return
        self._last_error = ""
        if self._stamps != before:
            log.info("web config reloaded", file=str(self._path))

    def _read(self, before: _ActiveConfig | None = None) -> _ActiveConfig:
        # Stamps are taken before the files are read, so that a change in between is noticed the next time.
        stamps = _stamps([str(self._path)])
        try:
            config = webconfig.parse(self._path.read_text(), self._path.parent)
            if config.tls is not None:
                stamps |= _stamps(config.tls.files)
            active = _ActiveConfig(config, None if config.tls is None else tls.build(config.tls))
        except (OSError, UnicodeDecodeError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or "not UTF-8"
            raise WebConfigError(f"{self._path}: {reason}") from error
        except WebConfigError as error:
            raise WebConfigError(f"{self._path}: {error}") from error
        finally:
            youngest = max((m.ctime_ns for m in stamps.values() if m), default=0)
            self._settled = self._now() - youngest / _NANOSECONDS > _SETTLED
            self._stamps = stamps
        if before is not None and (loss := _loss(before.config, config)):
            raise WebConfigError(f"{self._path}: {loss}; restart the agent to allow this")
        return active


def _stamps(paths: Iterable[str]) -> Stamps:
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> FileStamp | None:
    try:
        return steadyfile.stamp(Path(path).stat())
    except OSError:
        return None


def _loss(before: WebConfig, now: WebConfig) -> str:
    """Return the protection that was removed; empty if there is none."""
    if before.tls is not None and now.tls is None:
        return "the new file has no TLS"
    if before.users and not now.users:
        return "the new file has no users"
    required = before.tls is not None and before.tls.verifies_clients
    if required and not (now.tls is not None and now.tls.verifies_clients):
        return "the new file does not require client certificates"
    return ""
