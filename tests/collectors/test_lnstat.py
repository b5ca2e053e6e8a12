import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.lnstat import Lnstat

ARP = "entries  allocs hash_grows\n00000014  00000001 0000000a\n00000014  0000000d 00000000\n"


def test_columns_of_all_caches_are_exported_per_cpu(plant, values) -> None:
    host = plant({"proc/net/stat/arp_cache": ARP, "proc/net/stat/ndisc_cache": "allocs\nff\n"})
    assert values(Lnstat(host).collect()) == {
        'node_lnstat_entries_total{subsystem="arp_cache",cpu="0"}': 20,
        'node_lnstat_entries_total{subsystem="arp_cache",cpu="1"}': 20,
        'node_lnstat_allocs_total{subsystem="arp_cache",cpu="0"}': 1,
        'node_lnstat_allocs_total{subsystem="arp_cache",cpu="1"}': 13,
        'node_lnstat_allocs_total{subsystem="ndisc_cache",cpu="0"}': 255,
        'node_lnstat_hash_grows_total{subsystem="arp_cache",cpu="0"}': 10,
        'node_lnstat_hash_grows_total{subsystem="arp_cache",cpu="1"}': 0,
    }


def test_damaged_number_is_left_out(plant, values) -> None:
    host = plant({"proc/net/stat/arp_cache": "entries allocs\n00000002 0x1\n"})
    assert values(Lnstat(host).collect()) == {
        'node_lnstat_entries_total{subsystem="arp_cache",cpu="0"}': 2
    }


def test_machine_without_caches_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Lnstat(plant({})).collect())
