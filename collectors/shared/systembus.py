"""Queries to services on the host's system bus (D-Bus) through jeepney, which is imported by the first query."""

import contextlib
import importlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from collectors.interface.sample import CollectorError, SourceAbsentError

SOCKET = "run/dbus/system_bus_socket"
_TIMEOUT = 4.0  # seconds for all queries of a scrape; shorter than --collector.timeout
_AT_ONCE = 64  # queries under way; the bus allows 128 per connection
_PROPERTIES = "org.freedesktop.DBus.Properties"


class Property(NamedTuple):
    """A property of an object."""

    path: str
    interface: str
    name: str


class SystemBus:
    """A connection to the bus. Methods raise CollectorError."""

    def __init__(self, jeepney: Any, connection: Any) -> None:
        self._jeepney = jeepney
        self._connection = connection
        self._deadline = time.monotonic() + _TIMEOUT

    def call(self, service: str, path: str, interface: str, method: str) -> Sequence[Any]:
        """Return the results of a method without arguments."""
        address = self._jeepney.DBusAddress(path, service, interface)
        (reply,) = self._ask([self._jeepney.new_method_call(address, method)])
        if reply.header.message_type is not self._jeepney.MessageType.method_return:
            raise CollectorError(f"{service}: {method}: {_sentence(reply.body)}")
        body: Sequence[Any] = reply.body
        return body

    def properties(self, service: str, wanted: Sequence[Property]) -> list[Any]:
        """Return the values of properties; None for those that the service does not have."""
        questions = [
            self._jeepney.new_method_call(
                self._jeepney.DBusAddress(path, service, _PROPERTIES),
                "Get",
                "ss",
                (interface, name),
            )
            for path, interface, name in wanted
        ]
        values = []
        for reply in self._ask(questions):
            good = reply.header.message_type is self._jeepney.MessageType.method_return
            values.append(reply.body[0][1] if good else None)
        return values

    def _ask(self, questions: Sequence[Any]) -> list[Any]:
        """Send questions, several at once, and return the replies in their order."""
        replies: dict[int, Any] = {}
        serials: list[int] = []
        try:
            for question in questions:
                while len(serials) - len(replies) >= _AT_ONCE:
                    self._receive(replies)
                serials.append(next(self._connection.outgoing_serial))
                self._connection.send(question, serial=serials[-1])
            while not replies.keys() >= set(serials):
                self._receive(replies)
        except TimeoutError as error:
            raise CollectorError("D-Bus: no reply in time") from error
        except (OSError, ValueError) as error:
            raise CollectorError(f"D-Bus: {error}") from error
        return [replies[serial] for serial in serials]

    def _receive(self, replies: dict[int, Any]) -> None:
        message = self._connection.receive(timeout=max(0.0, self._deadline - time.monotonic()))
        serial = message.header.fields.get(self._jeepney.HeaderFields.reply_serial)
        if serial is not None:  # others are signals
            replies[serial] = message


@contextlib.contextmanager
def connected(root: Path) -> Iterator[SystemBus]:
    """Connect to the system bus of the host whose file system is mounted at `root`."""
    try:
        jeepney = importlib.import_module("jeepney")
        blocking = importlib.import_module("jeepney.io.blocking")
    except ImportError as error:
        raise CollectorError(
            f"jeepney is not installed ({error}): pip install 'kube-plimsoll[systemd]'"
        ) from error
    path = root / SOCKET
    if not path.exists():
        raise SourceAbsentError(f"{path}: no system bus")
    try:
        socket = blocking.prep_socket(str(path), timeout=_TIMEOUT)
    except (OSError, ValueError) as error:
        raise CollectorError(f"{path}: {error}") from error
    with contextlib.closing(socket):
        socket.settimeout(_TIMEOUT)
        try:
            connection = blocking.DBusConnection(socket)
        except (OSError, ValueError, jeepney.DBusErrorResponse) as error:
            raise CollectorError(f"{path}: {error}") from error
        with contextlib.closing(connection):
            yield SystemBus(jeepney, connection)


def _sentence(body: Sequence[Any]) -> str:
    return str(body[0]) if body else "refused"
