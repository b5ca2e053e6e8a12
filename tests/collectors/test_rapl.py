from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.rapl import Options, Rapl, split

POWERCAP = "sys/class/powercap"
XEON = {
    "intel-rapl": None,
    "intel-rapl:0": ("package-0", "24042400000"),
    "intel-rapl:0:0": ("dram", "118821284"),
    "intel-rapl:1": ("package-1", "0"),
    "intel-rapl:1:0": ("dram", "100"),
    "intel-rapl-mmio:0": ("package-0", "7000000"),
}


@pytest.fixture
def xeon(plant) -> Host:
    for zone, said in XEON.items():
        files = {"enabled": "1\n"}
        if said is not None:
            files |= {"name": f"{said[0]}\n", "energy_uj": f"{said[1]}\n"}
        host: Host = plant({f"{POWERCAP}/{zone}/{file}": text for file, text in files.items()})
    return host


def test_energy_is_by_zone(xeon, values) -> None:
    base = f"{xeon.sysfs}/class/powercap"
    assert values(Rapl(xeon, Options()).collect()) == {
        f'node_rapl_package_joules_total{{index="0",path="{base}/intel-rapl-mmio:0"}}': 7,
        f'node_rapl_package_joules_total{{index="0",path="{base}/intel-rapl:0"}}': 24042.4,
        f'node_rapl_package_joules_total{{index="1",path="{base}/intel-rapl:1"}}': 0,
        f'node_rapl_dram_joules_total{{index="0",path="{base}/intel-rapl:0:0"}}': 118.821284,
        f'node_rapl_dram_joules_total{{index="1",path="{base}/intel-rapl:1:0"}}': 0.0001,
    }


def test_zone_can_be_a_label(xeon, values) -> None:
    found = values(Rapl(xeon, Options(rapl_zone_label=True)).collect())
    path = f"{xeon.sysfs}/class/powercap/intel-rapl:1:0"
    assert found[f'node_rapl_joules_total{{index="1",path="{path}",rapl_zone="dram"}}'] == 0.0001
    assert len(found) == 5


def test_path_is_as_configured(tmp_path: Path, monkeypatch, plant) -> None:
    plant({f"{POWERCAP}/intel-rapl:0/name": "psys\n", f"{POWERCAP}/intel-rapl:0/energy_uj": "1\n"})
    (tmp_path / "link").symlink_to("sys")
    monkeypatch.chdir(tmp_path)
    (family,) = Rapl(Host(sysfs=Path("link")), Options()).collect()
    assert dict(family.samples[0].labels)["path"] == "link/class/powercap/intel-rapl:0"


def test_dies_are_numbered_and_their_name_is_in_the_help(plant) -> None:
    for n in (0, 1):
        zone = f"{POWERCAP}/intel-rapl:{n}"
        host = plant({f"{zone}/name": "package-0-die-0\n", f"{zone}/energy_uj": "1\n"})
    (family,) = Rapl(host, Options()).collect()
    assert family.name == "node_rapl_package_0_die_0_joules_total"
    assert family.help == "Current RAPL package-0-die-0 value in joules"
    assert [dict(sample.labels)["index"] for sample in family.samples] == ["0", "1"]


def test_zone_without_a_counter_has_no_sample(plant, values) -> None:
    host = plant(
        {
            f"{POWERCAP}/dtpm/name": "soc\n",
            f"{POWERCAP}/dtpm:0/name": "cpu\n",
            f"{POWERCAP}/dtpm:0/energy_uj": "1000000\n",
        }
    )
    assert list(values(Rapl(host, Options()).collect()).values()) == [1]  # fmt: skip


def test_counters_readable_by_root_only_are_reported(xeon, failing_reads) -> None:
    for path in (xeon.sysfs / "class/powercap").glob("*/energy_uj"):
        failing_reads(path)
    with pytest.raises(CollectorError, match="root") as caught:
        Rapl(xeon, Options()).collect()
    assert not isinstance(caught.value, SourceAbsentError)


def test_missing_powercap_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        Rapl(Host(sysfs=tmp_path), Options()).collect()


def test_powercap_without_zones_exports_nothing(tmp_path: Path, plant, values) -> None:
    (tmp_path / POWERCAP).mkdir(parents=True)
    assert values(Rapl(plant({}), Options()).collect()) == {}
    assert values(Rapl(plant({}), Options(rapl_zone_label=True)).collect()) == {}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("package-1", ("package", 1)),
        ("dram", ("dram", 2)),
        ("package-0-die-1", ("package-0-die-1", 0)),
        ("-1", ("-1", 0)),
        ("core-", ("core-", 0)),
        ("core-x", ("core-x", 0)),
        ("core-99999999999", ("core-99999999999", 0)),
    ],
)
def test_zone_names_are_split_into_name_and_index(name: str, parts: tuple[str, int]) -> None:
    assert split(name, {"dram": 2}) == parts
