import pytest

from collectors.bonding import Bonding
from collectors.interface.sample import SourceAbsentError

NET = "sys/class/net"


def test_slaves_are_counted_and_those_that_are_up(plant, values) -> None:
    host = plant(
        {
            f"{NET}/bonding_masters": "bond0 bond1\n",
            f"{NET}/bond0/bonding/slaves": "eth0 eth1\n",
            f"{NET}/bond0/lower_eth0/bonding_slave/mii_status": "up\n",
            f"{NET}/bond0/lower_eth1/bonding_slave/mii_status": "down\n",
            f"{NET}/bond1/bonding/slaves": "\n",
        }
    )
    assert values(Bonding(host).collect()) == {
        'node_bonding_slaves{master="bond0"}': 2,
        'node_bonding_slaves{master="bond1"}': 0,
        'node_bonding_active{master="bond0"}': 1,
        'node_bonding_active{master="bond1"}': 0,
    }


def test_links_of_kernels_before_3_9_are_read(plant, values) -> None:
    host = plant(
        {
            f"{NET}/bonding_masters": "bond0\n",
            f"{NET}/bond0/bonding/slaves": "eth0\n",
            f"{NET}/bond0/slave_eth0/bonding_slave/mii_status": "up\n",
        }
    )
    assert values(Bonding(host).collect())['node_bonding_active{master="bond0"}'] == 1


def test_bond_removed_while_reading_is_absent(plant, values) -> None:
    host = plant({f"{NET}/bonding_masters": "gone\n"})
    assert values(Bonding(host).collect()) == {}


def test_machine_without_bonds_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Bonding(plant({})).collect())
