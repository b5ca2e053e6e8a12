"""Processes of supervisord, by XML-RPC over HTTP or a Unix socket."""

import http.client
import socket
import xml.parsers.expat
import xmlrpc.client
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from plimsoll.flags import option

_LABELS = ("name", "group")
METRICS = Table(
    Metric("node_supervisord_up", "gauge", "Process Up", "supervisord", _LABELS),
    Metric("node_supervisord_state", "gauge", "Process State", "supervisord", _LABELS),
    Metric("node_supervisord_exit_status", "gauge", "Process Exit Status", "supervisord", _LABELS),
    Metric(
        "node_supervisord_start_time_seconds",
        "gauge",
        "Process start time",
        "supervisord",
        _LABELS,
        "seconds",
    ),
)


def _supervisord_url(text: str) -> str:
    if not text.startswith(("http://", "unix:///")):
        raise ValueError(
            f"not a URL: {text!r} (write it like http://localhost:9001/RPC2 or unix:///run/supervisor.sock)"
        )
    return text


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    supervisord_url: str = option(
        "collector.supervisord.url",
        "http://localhost:9001/RPC2",
        "address of supervisord's XML-RPC interface; unix:///PATH for a socket on the host",
        env="SUPERVISORD_URL",
        metavar="URL",
        parse=_supervisord_url,
    )


_TIMEOUT = 4.0  # shorter than --collector.timeout
_RUNNING = frozenset({10, 20, 40})  # STARTING, RUNNING, STOPPING
Row = tuple[tuple[str, str], float]


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise


class _Transport(xmlrpc.client.Transport):
    """Requests with a timeout. `path`: a Unix socket; without it the URL's host is used."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        """Return a new connection, which `close` closes."""
        address, headers, _ = self.get_host_info(host)
        self._extra_headers = headers or []  # a user in the URL
        if self._path:
            made: http.client.HTTPConnection = _UnixConnection(self._path)
        else:
            made = http.client.HTTPConnection(address, timeout=_TIMEOUT)
        self._connection = host, made
        return made


def families(processes: Sequence[Mapping[str, Any]]) -> Iterator[Family]:
    """Yield the families. A process that is not running has no start time."""
    rows: dict[str, list[Row]] = {metric.name: [] for metric in METRICS}
    for key, state, exit_status, start in guard.readable(processes, _process):
        rows["node_supervisord_state"].append((key, float(state)))
        rows["node_supervisord_exit_status"].append((key, exit_status))
        rows["node_supervisord_up"].append((key, float(state in _RUNNING)))
        if state in _RUNNING:
            rows["node_supervisord_start_time_seconds"].append((key, start))
    for name, samples in rows.items():
        yield METRICS.family(name, samples)


def _process(process: Mapping[str, Any]) -> tuple[tuple[str, str], int, float, float]:
    """Return name and group, state, exit status and start time."""
    try:
        key = str(process["name"]), str(process["group"])
        status, start = float(process["exitstatus"]), float(process.get("start", 0))
        return key, int(process["state"]), status, start
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise CollectorError(f"supervisord: unexpected process: {error!r}") from error


class Supervisord:
    """The `supervisord` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        url = urlsplit(options.supervisord_url)
        is_local = url.scheme == "unix"
        path = f"{str(machine.rootfs).rstrip('/')}{url.path}" if is_local else ""
        address = "http://localhost/RPC2" if is_local else options.supervisord_url
        self._transport = _Transport(path)
        self._server = xmlrpc.client.ServerProxy(address, transport=self._transport)

    def collect(self) -> Iterator[Family]:
        """Query supervisord now."""
        try:
            answer: Any = self._server.supervisor.getAllProcessInfo()
            yield from families(answer)
        except xmlrpc.client.ProtocolError as error:
            raise CollectorError(f"supervisord: status {error.errcode} {error.errmsg}") from error
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            raise CollectorError(f"supervisord: {error}") from error
        except (KeyError, TypeError, ValueError, xml.parsers.expat.ExpatError) as error:
            raise CollectorError(f"supervisord: unexpected answer: {error!r}") from error
        finally:
            self._transport.close()


ENTRY = Entry(
    build=Supervisord,
    metrics=METRICS,
    about="processes of supervisord",
    on=False,
    options=Options,
    needs="a local supervisord",
)
