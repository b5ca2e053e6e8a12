"""Applies the web configuration: TLS, authentication and rate limit; reloads it when its files change.

The files are checked on each connection and request: changes of TLS apply to new connections, the rest to new requests.
A file that becomes invalid is logged and ignored. So is one that removes a protection entirely, which may be a truncated
file; it takes effect only after a restart.

bcrypt is slow by design: passwords are checked one at a time, in a thread, with a cache.
"""

import asyncio
import base64
import binascii
import hashlib
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from agent.web import config as webconfig
from agent.web import tls
from agent.web.config import WebConfig, WebConfigError
from collectors.shared import steadyfile
from collectors.shared.steadyfile import FileStamp
from plimsoll import logs
from plimsoll.fairlock import FairLock, TooManyWaitError
from plimsoll.http.tls import Tls
from plimsoll.http.types import Handler, Request, Response
from plimsoll.ratelimit import TokenBucket

_MAX_BYTES = 72  # bcrypt ignores further bytes
_REMEMBERED = 100
_SALT = b"$2b$%02d$" + b"." * 22
_WAITING = 31
"""Maximum number of passwords waiting to be checked."""
_SETTLED = 0.05  # seconds after which another change of a file is certain to have another timestamp
_NANOSECONDS = 1_000_000_000


class BasicAuth:
    """Checks passwords and caches results. Correct ones are cached apart from wrong ones, so that guessing does not evict them."""

    def __init__(self) -> None:
        self._right: dict[bytes, None] = {}
        self._wrong: dict[bytes, None] = {}
        self._checking = FairLock(_WAITING)

    async def fit(self, users: Mapping[str, str], authorization: str) -> bool:
        """Return whether an Authorization header has the name and password of a user. Raises TooManyWaitError."""
        if (given := _basic(authorization)) is None:
            return False
        name, password = given
        hashed = users.get(name.decode("utf-8", "replace"))
        most = max(map(_cost, users.values()))
        key = hashlib.sha256(b"\0".join((name, (hashed or "").encode(), password))).digest()
        if key in self._right:
            return True
        if key in self._wrong:
            return False
        async with self._checking.hold():
            right = await asyncio.to_thread(_check, password, hashed, most)
        _remember(self._right if right else self._wrong, key)
        return right


def _basic(authorization: str) -> tuple[bytes, bytes] | None:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(credentials, validate=True)
    except (binascii.Error, ValueError):
        return None
    name, colon, password = decoded.partition(b":")
    return (name, password) if colon else None


def _cost(hashed: str) -> int:
    """Return the cost of a bcrypt hash: checking a password takes 2**cost rounds."""
    return int(hashed.split("$")[2])


def _check(password: bytes, hashed: str | None, most: int) -> bool:
    """Return whether a password has a hash (None: the user is unknown). Takes 2**most rounds in any case.

    Otherwise the time would tell which users exist. 2**c rounds become 2**most by another 2**c, 2**(c+1), ..., 2**(most-1).
    """
    import bcrypt  # not imported without users

    password = password[:_MAX_BYTES]
    try:
        if hashed is None:
            bcrypt.hashpw(password, _SALT % most)
            return False
        right = bcrypt.checkpw(password, hashed.encode())
        for cost in range(_cost(hashed), most):
            bcrypt.hashpw(password, _SALT % cost)
        return right
    except ValueError:  # a password that bcrypt rejects for any hash
        return False


def _remember(keys: dict[bytes, None], key: bytes) -> None:
    if len(keys) >= _REMEMBERED:
        del keys[next(iter(keys))]
    keys[key] = None


log = logs.get(__name__)


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
