import tempfile
from pathlib import Path

from collectors.interface.host import Host
from collectors.logind import Logind
from tests.collectors import fakebus

SESSIONS = [
    ("1", 1000, "ada", "seat0", "/s/1"),
    ("2", 1000, "ada", "", "/s/2"),
    ("3", 1001, "bob", "", "/s/3"),
    ("4", 1001, "bob", "", "/s/ended"),
]
PROPERTIES = {
    "/s/1": {"Remote": ("b", False), "Type": ("s", "wayland"), "Class": ("s", "user")},
    "/s/2": {"Remote": ("b", True), "Type": ("s", "tty"), "Class": ("s", "user")},
    "/s/3": {"Remote": ("b", True), "Type": ("s", "hologram"), "Class": ("s", "user")},
}
METHODS = {
    "ListSeats": ("a(so)", ([("seat0", "/seat/0")],)),
    "ListSessions": ("a(susso)", (SESSIONS,)),
}


def test_sessions_are_counted_by_seat_type_and_class(values) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with fakebus.serving(root, PROPERTIES, METHODS):
            found = values(Logind(Host(rootfs=root)).collect())
    assert len(found) == 2 * 2 * 7 * 5
    assert {series: value for series, value in found.items() if value} == {
        'node_logind_sessions{seat="seat0",remote="false",type="wayland",class="user"}': 1,
        'node_logind_sessions{seat="",remote="true",type="tty",class="user"}': 1,
        'node_logind_sessions{seat="",remote="true",type="other",class="user"}': 1,
    }
