"""Requests to one API server: sends bytes, returns bytes or lines, renews credentials, raises KubeError for every failure."""

import asyncio
import math
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import aiohttp

from evaluator.core.model import api_status
from plimsoll.text import SentenceError, one_line, redacted

_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
"""Of a request. A busy API server may take many seconds before the first byte of a page; connecting to a live one takes none."""
LONGEST_LINE = 16 << 20
"""Largest watch event in bytes. etcd stores 1.5 MiB by default and is rarely configured for more than 8; JSON escapes a bit."""
_RENEWAL_PAUSE = 1.0
"""Seconds between two reloads of the credentials, however many requests get a 401."""


class KubeError(SentenceError):
    """The API server refused a request or could not be reached. `status` is the HTTP status, 0 without a response.

    `retry_after`: the Retry-After of the response in seconds.
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
        """Whether the resourceVersion is too old (410), so that a new list is needed."""
        return self.status == 410

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later: no response, too many requests, or a server's error."""
        return self.status in {0, 429} or self.status >= 500


class APIConnection(Protocol):
    """Sends single requests. Its methods raise KubeError with status 0."""

    @property
    def host(self) -> str:
        """The API server's URL."""
        ...

    async def token(self) -> str:
        """The Authorization header; empty for none."""
        ...

    async def reload(self) -> None:
        """Read the credentials again from their source."""
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
        """Send one request and return the response, whatever its status."""
        ...


class APISession:
    """Requests with credentials that are renewed after a 401. All methods raise KubeError."""

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
        """The whole body of the response."""
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
        """The response after its header; the caller must release it. A status of 300 or more raises."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        parameters = {name: value for name, value in query.items() if value}
        url = f"{self._connection.host}{path}?{urllib.parse.urlencode(parameters)}"

        async def send() -> aiohttp.ClientResponse:
            if token := await self._connection.token():
                headers["authorization"] = token
            return await self._connection.send(method, url, headers, body, timeout=timeout)

        response = await send()
        if response.status == 401 and await self._renew(headers.get("authorization", "")):
            response.release()
            response = await send()
        if response.status >= 300:
            raise await _refusal(response, f"{method} {path}", headers.get("authorization", ""))
        return response

    async def _renew(self, refused: str) -> bool:
        """Reload the credentials; returns whether they differ from the refused ones."""
        async with self._renewing:
            if await self._connection.token() != refused:
                return True  # another request has reloaded them
            now = self._clock()
            if self._renewed is not None and now - self._renewed < _RENEWAL_PAUSE:
                return False
            self._renewed = now
            await self._connection.reload()
            return await self._connection.token() != refused


async def whole(response: aiohttp.ClientResponse, call: str, *, largest: float = math.inf) -> bytes:
    """The body of a response. Raises KubeError if it is incomplete or longer than `largest` bytes."""
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > largest:
                response.close()
                raise KubeError(0, f"{call}: a response of more than {largest} bytes")
        return bytes(body)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise KubeError(0, f"{call}: the response is incomplete: {sentence(error)}") from error
    finally:
        response.release()


async def lines(
    response: aiohttp.ClientResponse, call: str, *, longest: int = LONGEST_LINE
) -> AsyncIterator[bytes]:
    """The lines of a response; aiohttp limits lines to a buffer that large nodes exceed.

    Raises KubeError if the response is incomplete, silent for longer than its timeout, or has a line of more than `longest`
    bytes; with status 410 for the last, as only a new list can pass over such an event.
    """
    begun: list[bytes] = []
    length = 0
    try:
        async for chunk in response.content.iter_any():
            *complete, rest = chunk.split(b"\n")
            for end in complete:
                # Joined once: appending each chunk to a long line would copy it each time.
                line = b"".join((*begun, end))
                begun.clear()
                length = 0
                if line.strip():
                    yield line
            begun.append(rest)
            length += len(rest)
            if length > longest:
                raise KubeError(410, f"{call}: an event of more than {longest} bytes, listing anew")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise KubeError(0, f"{call} broke: {sentence(error)}") from error
    finally:
        response.close()
    if (last := b"".join(begun)).strip():
        yield last


async def _refusal(response: aiohttp.ClientResponse, call: str, shown: str) -> KubeError:
    """The error for a response of 300 or more, without the credentials `shown` that were sent."""
    try:
        body = await response.read()
    except (aiohttp.ClientError, TimeoutError):
        body = b""
    finally:
        response.release()
    status = api_status.read(body, response.headers.get("Retry-After", ""))
    words = redacted(status.message or response.reason or "", shown)
    message = f"{call}: {response.status} {words}"
    return KubeError(response.status, message, causes=status.causes, retry_after=status.retry_after)


def sentence(error: Exception) -> str:
    """The text of an error on one line."""
    return one_line(str(error)) or type(error).__name__
