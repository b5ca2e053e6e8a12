from pathlib import Path

import pytest

from collectors.base.host import Host
from collectors.base.sample import SourceAbsentError
from collectors.watchdog import Watchdog

TIMER = "sys/class/watchdog/watchdog0"


def test_a_timer_with_what_its_driver_offers(machine, values) -> None:
    assert values(Watchdog(machine("xeon")).collect()) == {
        'node_watchdog_bootstatus{name="watchdog0"}': 0,
        'node_watchdog_fw_version{name="watchdog0"}': 4,
        'node_watchdog_nowayout{name="watchdog0"}': 0,
        'node_watchdog_timeout_seconds{name="watchdog0"}': 30,
        'node_watchdog_info{name="watchdog0",options="0x8180",identity="iTCO_wdt",state="inactive",status="0x100",pretimeout_governor=""}': 1,
    }


def test_a_file_that_cannot_be_read_hurts_no_other(plant, values, ill, tmp_path: Path) -> None:
    host = plant({f"{TIMER}/timeout": "60\n", f"{TIMER}/pretimeout": "none\n"})
    ill(tmp_path / TIMER / "timeleft")
    ill(tmp_path / TIMER / "identity")
    found = values(Watchdog(host).collect())
    assert found.pop('node_watchdog_timeout_seconds{name="watchdog0"}') == 60
    (info,) = found
    assert 'identity=""' in info


def test_a_machine_without_timers_has_nothing_to_say(tmp_path: Path, values) -> None:
    (tmp_path / "class/watchdog").mkdir(parents=True)
    assert values(Watchdog(Host(sysfs=tmp_path)).collect()) == {}


def test_without_the_class_there_is_no_such_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Watchdog(Host(sysfs=tmp_path)).collect())
