"""A system bus of one service for tests: objects with properties, and methods, on a socket below a host's root."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jeepney
from jeepney.low_level import Parser

Properties = Mapping[str, Mapping[str, tuple[str, Any]]]
"""Path of an object → property → (signature, value)."""
Methods = Mapping[str, tuple[str, tuple[Any, ...]]]
"""Method → (signature, results)."""


@contextlib.contextmanager
def serving(root: Path, properties: Properties, methods: Methods) -> Iterator[None]:
    """Serve one connection after the other until the block ends."""
    path = root / "run/dbus/system_bus_socket"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        stop = threading.Event()

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    if stop.is_set():
                        return
                    _serve(connection, properties, methods)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
                thread.join()


def _serve(connection: socket.socket, properties: Properties, methods: Methods) -> None:
    seen = b""
    while b"BEGIN\r\n" not in seen:
        if not (data := connection.recv(4096)):
            return
        seen += data
        if b"AUTH" in data:
            connection.sendall(b"OK 0123456789abcdef\r\n")
    parser = Parser()
    messages = parser.feed(seen.partition(b"BEGIN\r\n")[2])
    serial = 0
    while True:
        for message in messages:
            for reply in _replies(message, properties, methods):
                serial += 1
                connection.sendall(reply.serialise(serial))
        try:
            data = connection.recv(4096)
        except ConnectionResetError:
            return
        if not data:
            return
        messages = parser.feed(data)


def _replies(message: Any, properties: Properties, methods: Methods) -> Iterator[Any]:
    fields = message.header.fields
    member = fields[jeepney.HeaderFields.member]
    path = fields[jeepney.HeaderFields.path]
    if member == "Hello":
        yield jeepney.new_signal(jeepney.DBusAddress("/", interface="a.b"), "NameAcquired")
        yield jeepney.new_method_return(message, "s", (":1.1",))
    elif member == "Get" and message.body[1] in properties.get(path, {}):
        yield jeepney.new_method_return(message, "v", (properties[path][message.body[1]],))
    elif member in methods:
        yield jeepney.new_method_return(message, *methods[member])
    else:
        yield jeepney.new_error(message, "a.b.Unknown", "s", (f"no {member} here",))
