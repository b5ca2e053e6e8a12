"""Sessions of users, from systemd-logind on the system bus."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import systembus
from collectors.shared.systembus import Property, SystemBus

_SERVICE = "org.freedesktop.login1"
_PATH = "/org/freedesktop/login1"
METRICS = Table(
    Metric(
        "node_logind_sessions",
        "gauge",
        "Number of sessions registered in logind.",
        f"D-Bus: {_SERVICE}",
        ("seat", "remote", "type", "class"),
    )
)
_REMOTE = ("true", "false")
_TYPES = ("other", "unspecified", "tty", "x11", "wayland", "mir", "web")
_CLASSES = ("other", "user", "greeter", "lock-screen", "background")
_SESSION = ("Remote", "Type", "Class")


class Logind:
    """The `logind` collector."""

    def __init__(
        self,
        machine: host.Host,
        *,
        connect: Callable[[Path], AbstractContextManager[SystemBus]] = systembus.connected,
    ) -> None:
        self._root = machine.rootfs
        self._connect = connect

    def collect(self) -> Iterator[Family]:
        """Query logind now. Remote sessions have no seat. A session may end before its properties are read."""
        with self._connect(self._root) as bus:
            manager = f"{_SERVICE}.Manager"
            (seats,) = bus.call(_SERVICE, _PATH, manager, "ListSeats")
            (sessions,) = bus.call(_SERVICE, _PATH, manager, "ListSessions")
            wanted = [
                Property(session[4], f"{_SERVICE}.Session", name)
                for session in sessions
                for name in _SESSION
            ]
            values = bus.properties(_SERVICE, wanted)
        counts: Counter[tuple[str, ...]] = Counter()
        for index, session in enumerate(sessions):
            remote, kind, group = values[index * len(_SESSION) :][: len(_SESSION)]
            if None not in (remote, kind, group):
                known = _known(kind, _TYPES), _known(group, _CLASSES)
                counts[session[3], "true" if remote else "false", *known] += 1
        names = [*(seat[0] for seat in seats), ""]
        keys = dict.fromkeys((*itertools.product(names, _REMOTE, _TYPES, _CLASSES), *counts))
        yield METRICS.family("node_logind_sessions", ((key, float(counts[key])) for key in keys))


def _known(value: str, values: tuple[str, ...]) -> str:
    return value if value in values else "other"


ENTRY = Entry(
    build=lambda host, _: Logind(host),
    metrics=METRICS,
    about="sessions of users",
    on=False,
    needs="extra `systemd`",
)
