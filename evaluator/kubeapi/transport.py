"""Requests to one API server: bytes out, bytes or lines in, credentials that may be renewed, and one error for all that can fail."""

import asyncio
import math
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import aiohttp

from evaluator.model import api_status
from plimsoll.redact import redacted
from plimsoll.text import SentenceError, one_line

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_RENEWAL_PAUSE = 1.0
"""Seconds between two looks for new credentials, however many requests are refused meanwhile."""


class KubeError(SentenceError):
    """The API server said no, or could not be reached. `status` is the HTTP status, 0 if there was no answer.

    `retry_after`: the seconds for which a server that is too busy asks to be left alone.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        causes: tuple[dict[str, Any], ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.causes = causes
        self.retry_after = retry_after

    @property
    def gone(self) -> bool:
        """Whether a resourceVersion was too old: list again."""
        return self.status == 410


class APIConnection(Protocol):
    """What sends one request; what it raises is a KubeError of status 0."""

    @property
    def host(self) -> str:
        """The API server's URL."""
        ...

    async def token(self) -> str:
        """What goes into the Authorization header; empty where nothing does."""
        ...

    async def reload(self) -> None:
        """Read the credentials again from where they came."""
        ...

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: object,
        *,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send one request, whatever comes back."""
        ...


class APISession:
    """All methods raise KubeError."""

    def __init__(
        self, connection: APIConnection, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._renewing = asyncio.Lock()
        self._renewed: float | None = None

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: object = None,
        content_type: str = "application/json",
    ) -> bytes:
        """A request's whole answer."""
        response = await self.send(method, path, query, body=body, content_type=content_type)
        return await whole(response, f"{method} {path}")

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: object = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout = _TIMEOUT,
    ) -> aiohttp.ClientResponse:
        """An answer that has begun to come, and that the caller has to release; a status of 300 or more is an error."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        wanted = {name: value for name, value in query.items() if value}
        url = f"{self._connection.host}{path}?{urllib.parse.urlencode(wanted)}"

        async def ask() -> aiohttp.ClientResponse:
            if token := await self._connection.token():
                headers["authorization"] = token
            return await self._connection.send(method, url, headers, body, timeout=timeout)

        response = await ask()
        if response.status == 401 and await self._renew(headers.get("authorization", "")):
            response.release()
            response = await ask()
        if response.status >= 300:
            raise await _refusal(response, f"{method} {path}", headers.get("authorization", ""))
        return response

    async def _renew(self, refused: str) -> bool:
        """Look for other credentials than those that were refused; whether there are any."""
        async with self._renewing:
            if await self._connection.token() != refused:
                return True  # whoever was refused first has found them
            now = self._clock()
            if self._renewed is not None and now - self._renewed < _RENEWAL_PAUSE:
                return False
            self._renewed = now
            await self._connection.reload()
            return await self._connection.token() != refused


async def whole(response: aiohttp.ClientResponse, call: str, *, largest: float = math.inf) -> bytes:
    """The body of an answer. Raises KubeError where it breaks off, or is of more than `largest` bytes."""
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > largest:
                response.close()
                raise KubeError(0, f"{call}: an answer of more than {largest} bytes")
        return bytes(body)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise KubeError(0, f"{call}: the answer broke off: {sentence(error)}") from error
    finally:
        response.release()


async def lines(response: aiohttp.ClientResponse, call: str) -> AsyncIterator[bytes]:
    """The lines of an answer, of any length; aiohttp's own may not be longer than some buffer, as nodes with many images are.

    Raises KubeError where the answer breaks off, or says nothing for longer than its timeout allows.
    """
    begun: list[bytes] = []
    try:
        async for chunk in response.content.iter_any():
            *complete, rest = chunk.split(b"\n")
            for end in complete:
                # Joined once: to add each piece to a long line as it comes would copy it as often.
                line = b"".join((*begun, end))
                begun.clear()
                if line.strip():
                    yield line
            begun.append(rest)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise KubeError(0, f"{call} broke: {sentence(error)}") from error
    finally:
        response.close()
    if (last := b"".join(begun)).strip():
        yield last


async def _refusal(response: aiohttp.ClientResponse, call: str, shown: str) -> KubeError:
    """The error that an answer of 300 or more stands for; `shown` are the credentials that were sent."""
    try:
        body = await response.read()
    except (aiohttp.ClientError, TimeoutError):
        body = b""
    finally:
        response.release()
    said = api_status.read(body, response.headers.get("Retry-After", ""))
    words = redacted(said.message or response.reason or "", shown)
    message = f"{call}: {response.status} {words}"
    return KubeError(response.status, message, causes=said.causes, retry_after=said.retry_after)


def sentence(error: Exception) -> str:
    """What went wrong on one line, however many the error takes."""
    return one_line(str(error)) or type(error).__name__
