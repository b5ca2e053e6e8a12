"""Polls Prometheus, or a server with its HTTP API: one instant query per metric, by the file that maps metrics to queries."""

import base64
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from evaluator.core.sources import prometheus_vector
from evaluator.core.sources.answer import PolledAnswer, SourceError, moment
from evaluator.core.sources.prometheus_vector import Join
from evaluator.core.tls import TlsError
from plimsoll import VERSION, durations, logs, strictyaml
from plimsoll.text import one_line, redacted, shown

log = logs.get(__name__)
_LARGEST = 64 << 20
"""Bytes of a response: 5,000 nodes take one or two million; larger ones come from queries that match too much."""
_USER = re.compile(r"//[^/@]*@")
_LONGEST = 2000
"""Longer queries are sent by POST: proxies limit the length of URLs. Others use GET, which some proxies require."""


class QueriesError(Exception):
    """The mapping file is invalid; the message names it and the reason."""


def parse_queries(text: str) -> dict[str, str]:
    """Return the queries by metric name. Raises ValueError."""
    try:
        found = strictyaml.load(text)
    except strictyaml.MalformedError as error:
        raise ValueError(f"not YAML: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError("not a mapping of metric names to queries")
    for metric, query in found.items():
        if not isinstance(metric, str) or not metric:
            raise ValueError(f"not a metric name: {shown(metric)}")
        if not isinstance(query, str) or not query.strip():
            raise ValueError(one_line(f"{metric}: its query is not a string"))
    return found


class Queries:
    """The current mapping. If a changed file is invalid, the error is logged and the previous mapping stays."""

    def __init__(self, path: str) -> None:
        """An empty path means no queries. Raises QueriesError."""
        self._path = Path(path) if path else None
        self._known: Mapping[str, str] = {}
        self._loaded: tuple[int, ...] | None = None
        if self._path is not None:
            try:
                self._known, self._loaded = self._read(self._path)
            except (OSError, ValueError) as error:
                raise QueriesError(f"--prometheusQueries {path}: {error}") from error

    def query_of(self, metric: str) -> str | None:
        """Return the query of a metric, or None."""
        if self._path is not None:
            self._reload_if_changed(self._path)
        return self._known.get(metric)

    def _reload_if_changed(self, path: Path) -> None:
        try:
            identity = _identity(path.stat())
        except OSError:
            identity = None
        if identity == self._loaded:
            return
        self._loaded = identity
        try:
            self._known, self._loaded = self._read(path)
        except (OSError, ValueError) as error:
            log.warning("queries not reloaded", file=str(path), error=str(error))
        else:
            log.info("queries reloaded", file=str(path), queries=len(self._known))

    @staticmethod
    def _read(path: Path) -> tuple[Mapping[str, str], tuple[int, ...]]:
        with path.open(encoding="utf-8") as file:
            return parse_queries(file.read()), _identity(os.fstat(file.fileno()))


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Access:
    """URL and credentials of Prometheus. Files are read for each request, since secrets are rotated."""

    url: str
    token_file: str = ""
    user: str = ""
    password_file: str = ""
    cacert: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Prometheus:
    """Queries metrics by their configured query, else by name."""

    def __init__(
        self,
        access: Access,
        queries: Queries,
        join: Callable[[], Join],
        *,
        timeout: float,
        largest: int = _LARGEST,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`join` returns the current function from series to node. Raises TlsError for an invalid CA file."""
        self._access = access
        self._url = f"{access.url.rstrip('/')}/api/v1/"
        self._queries = queries
        self._join = join
        self._timeout = timeout
        self._largest = largest
        self._clock = clock
        self._wall = wall
        self._tls = _tls_context(access.cacert) if access.cacert else True
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def fetch(self, metric: str) -> PolledAnswer:
        """Return a metric's readings by node. Raises SourceError."""
        query = self._queries.query_of(metric) or prometheus_vector.selector(metric)
        body, date = await self.request("query", {"query": query})
        now = moment(date, here=self._clock(), wall=self._wall())
        return prometheus_vector.parse(body, metric, self._join(), now)

    async def request(self, path: str, parameters: Mapping[str, str]) -> tuple[bytes, str]:
        """Return the body and the Date header of the answer to an API request. Raises SourceError."""
        try:
            return await self._request(path, parameters)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            what = " ".join(str(error).split()) or type(error).__name__
            raise SourceError("unreachable", what) from error

    async def _request(self, path: str, given: Mapping[str, str]) -> tuple[bytes, str]:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls)
            agent = {"User-Agent": f"plimsoll-evaluator/{VERSION}"}
            self._session = aiohttp.ClientSession(connector=connector, headers=agent)
        parameters = {**given, "timeout": durations.format_duration(self._timeout)}
        short = sum(map(len, given.values())) <= _LONGEST
        headers, secret = self._credentials()
        async with self._session.request(
            "GET" if short else "POST",
            self._url + path,
            params=parameters if short else None,
            data=None if short else parameters,
            headers={**dict(self._access.headers), **headers},
            allow_redirects=False,  # credentials must not be sent to another host
        ) as response:
            if 300 <= response.status < 400:
                raise SourceError(
                    "redirect",
                    f"it redirects to {_redirect_target(response.headers.get('Location', ''))}",
                )
            body = await _bounded(response, self._largest)
            if response.status >= 400:
                message = prometheus_vector.error_message(body) or response.reason or ""
                shown = redacted(message, secret, *headers.values())
                raise SourceError(f"http_{response.status}", f"{response.status} {shown}")
            return body, response.headers.get("Date", "")

    def _credentials(self) -> tuple[dict[str, str], str]:
        """Return the authorization headers, and the secret in them."""
        access = self._access
        if access.token_file:
            token = _secret(access.token_file)
            return {"Authorization": f"Bearer {token}"}, token
        if access.user:
            password = _secret(access.password_file)
            pair = base64.b64encode(f"{access.user}:{password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}, password
        return {}, ""


async def _bounded(response: aiohttp.ClientResponse, largest: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > largest:
            raise SourceError("too_large", f"a response of more than {largest} bytes")
    return bytes(body)


def _redirect_target(location: str) -> str:
    """Return the target of a redirect without credentials and query, which may contain secrets."""
    return _USER.sub("//", location.partition("?")[0].partition("#")[0]) or "nowhere"


def _secret(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError("credentials", f"{path} cannot be read: {error}") from error


def _tls_context(cacert: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cacert)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"--prometheusCacert {cacert} cannot be used: {error}") from error
