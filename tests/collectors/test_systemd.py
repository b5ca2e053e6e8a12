import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.systemd import Options as SystemdOptions
from collectors.systemd import Systemd
from tests.collectors import fakebus

MANAGER = "/org/freedesktop/systemd1"
NEVER = (1 << 64) - 1


def unit(name: str, active: str, *, load: str = "loaded") -> tuple[object, ...]:
    return (name, "about", load, active, "sub", "", f"{MANAGER}/unit/{name[0]}", 0, "", "/")


UNITS = [
    unit("web.service", "active"),
    unit("db.service", "failed"),
    unit("clean.timer", "active"),
    unit("listen.socket", "active"),
    unit("home.mount", "active"),
    unit("gone.service", "inactive", load="not-found"),
]
PROPERTIES = {
    MANAGER: {
        "Version": ("s", "252.39-1~deb12u1"),
        "Virtualization": ("s", "kvm"),
        "SystemState": ("s", "degraded"),
    },
    f"{MANAGER}/unit/w": {
        "Type": ("s", "notify"),
        "NRestarts": ("u", 3),
        "TasksCurrent": ("t", 12),
        "TasksMax": ("t", NEVER),
        "ActiveEnterTimestamp": ("t", 1_700_000_000_500_000),
    },
    f"{MANAGER}/unit/d": {"Type": ("s", "simple"), "NRestarts": ("u", 0), "TasksCurrent": ("t", NEVER)},
    f"{MANAGER}/unit/c": {"LastTriggerUSec": ("t", 1_600_000_000_000_000), "ActiveEnterTimestamp": ("t", 5)},
    f"{MANAGER}/unit/l": {"NAccepted": ("u", 7), "NConnections": ("u", 2), "ActiveEnterTimestamp": ("t", 5)},
}  # fmt: skip


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path, since those of sockets are limited."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def host(root: Path) -> Iterator[Host]:
    with fakebus.serving(root, PROPERTIES, {"ListUnits": ("a(ssssssouso)", (UNITS,))}):
        yield Host(rootfs=root)


def of(name: str, *labels: str) -> str:
    return f"node_systemd_{name}{{{','.join(labels)}}}" if labels else f"node_systemd_{name}"


def test_state_of_units_and_of_the_system_is_exported(host: Host, values) -> None:
    found = values(Systemd(host, SystemdOptions()).collect())
    expected = {
        of("unit_state", 'name="web.service"', 'state="active"', 'type="notify"'): 1,
        of("unit_state", 'name="web.service"', 'state="failed"', 'type="notify"'): 0,
        of("unit_state", 'name="db.service"', 'state="failed"', 'type="simple"'): 1,
        of("unit_state", 'name="clean.timer"', 'state="active"', 'type=""'): 1,
        of("units", 'state="active"'): 4,
        of("units", 'state="activating"'): 0,
        of("system_running"): 0,
        of("version", 'version="252.39-1~deb12u1"'): 252.39,
        of("virtualization_info", 'virtualization_type="kvm"'): 1,
        of("timer_last_trigger_seconds", 'name="clean.timer"'): 1_600_000_000,
        of("socket_accepted_connections_total", 'name="listen.socket"'): 7,
        of("socket_current_connections", 'name="listen.socket"'): 2,
    }
    assert {series: found[series] for series in expected} == expected
    assert not any("refused" in series for series in found), "not in this systemd"
    assert not any("home.mount" in series for series in found), "excluded by default"
    assert not any("gone.service" in series for series in found), "not loaded"
    assert not any(
        word in series for word in ("tasks", "restart", "start_time") for series in found
    )


def test_restarts_tasks_and_start_times_are_exported_if_enabled(host: Host, values) -> None:
    options = SystemdOptions(
        systemd_tasks=True, systemd_restarts=True, systemd_start_times=True, systemd_include=".*service"
    )  # fmt: skip
    found = values(Systemd(host, options).collect())
    words = ("tasks", "restart", "start_time")
    assert {s: v for s, v in found.items() if any(word in s for word in words)} == {
        of("service_restart_total", 'name="web.service"'): 3,
        of("service_restart_total", 'name="db.service"'): 0,
        of("unit_tasks_current", 'name="web.service"'): 12,
        of("unit_start_time_seconds", 'name="web.service"'): 1_700_000_000.5,
        of("unit_start_time_seconds", 'name="db.service"'): 0,
    }
    assert not any("timer" in series for series in found)


def test_many_units_are_queried(root: Path, values) -> None:
    names = [f"s{number}.service" for number in range(500)]
    units = [(*unit(name, "active")[:6], f"{MANAGER}/unit/w", 0, "", "/") for name in names]
    with fakebus.serving(root, PROPERTIES, {"ListUnits": ("a(ssssssouso)", (units,))}):
        found = values(Systemd(Host(rootfs=root), SystemdOptions()).collect())
    assert found[of("unit_state", 'name="s499.service"', 'state="active"', 'type="notify"')] == 1


def test_refused_query_is_an_error(root: Path) -> None:
    with (
        fakebus.serving(root, PROPERTIES, {}),
        pytest.raises(CollectorError, match="ListUnits: no ListUnits here"),
    ):
        list(Systemd(Host(rootfs=root), SystemdOptions()).collect())


def test_machine_without_a_bus_has_no_source(root: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Systemd(Host(rootfs=root), SystemdOptions()).collect())


def test_socket_without_a_bus_is_an_error(root: Path) -> None:
    (root / "run/dbus").mkdir(parents=True)
    (root / "run/dbus/system_bus_socket").touch()
    with pytest.raises(CollectorError, match="refused"):
        list(Systemd(Host(rootfs=root), SystemdOptions()).collect())


def test_odd_property_costs_itself(root: Path, values) -> None:
    odd = {**PROPERTIES, f"{MANAGER}/unit/w": {**PROPERTIES[f"{MANAGER}/unit/w"], "NRestarts": ("s", "many")}}  # fmt: skip
    options = SystemdOptions(systemd_restarts=True)
    with fakebus.serving(root, odd, {"ListUnits": ("a(ssssssouso)", (UNITS,))}):
        found = values(Systemd(Host(rootfs=root), options).collect())
    assert [s for s in found if "service_restart_total" in s] == [
        'node_systemd_service_restart_total{name="db.service"}'
    ]
