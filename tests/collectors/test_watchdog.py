from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.watchdog import Watchdog

TIMER = "sys/class/watchdog/watchdog0"


def test_timer_with_its_attributes_is_exported(machine, values) -> None:
    assert values(Watchdog(machine("xeon")).collect()) == {
        'node_watchdog_bootstatus{name="watchdog0"}': 0,
        'node_watchdog_fw_version{name="watchdog0"}': 4,
        'node_watchdog_nowayout{name="watchdog0"}': 0,
        'node_watchdog_timeout_seconds{name="watchdog0"}': 30,
        'node_watchdog_info{name="watchdog0",options="0x8180",identity="iTCO_wdt",state="inactive",status="0x100",pretimeout_governor=""}': 1,
    }


def test_unreadable_file_hides_no_other(plant, values, failing_reads, tmp_path: Path) -> None:
    host = plant({f"{TIMER}/timeout": "60\n", f"{TIMER}/pretimeout": "none\n"})
    failing_reads(tmp_path / TIMER / "timeleft")
    failing_reads(tmp_path / TIMER / "identity")
    found = values(Watchdog(host).collect())
    assert found.pop('node_watchdog_timeout_seconds{name="watchdog0"}') == 60
    (info,) = found
    assert 'identity=""' in info


def test_machine_without_timers_exports_nothing(tmp_path: Path, values) -> None:
    (tmp_path / "class/watchdog").mkdir(parents=True)
    assert values(Watchdog(Host(sysfs=tmp_path)).collect()) == {}


def test_missing_class_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Watchdog(Host(sysfs=tmp_path)).collect())
