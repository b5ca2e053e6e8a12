import pytest

from collectors.fibrechannel import FibreChannel
from collectors.interface.sample import SourceAbsentError

HOST = "sys/class/fc_host/host3"


def test_port_and_its_hexadecimal_counters_are_exported(plant, values) -> None:
    host = plant(
        {
            f"{HOST}/port_state": "Online\n",
            f"{HOST}/port_name": "0x1000e0071bce95f2\n",
            f"{HOST}/speed": "16 Gbit\n",
            f"{HOST}/statistics/rx_frames": "0x1f\n",
            f"{HOST}/statistics/invalid_crc_count": "0x2\n",
        }
    )
    info = 'fc_host="host3",speed="16 Gbit",port_state="Online",port_type="",port_id="",port_name="1000e0071bce95f2"'
    rest = (
        'fabric_name="",symbolic_name="",supported_classes="",supported_speeds="",dev_loss_tmo=""'
    )
    assert values(FibreChannel(host).collect()) == {
        f"node_fibrechannel_info{{{info},{rest}}}": 1,
        'node_fibrechannel_rx_frames_total{fc_host="host3"}': 31,
        'node_fibrechannel_invalid_crc_total{fc_host="host3"}': 2,
    }


def test_counter_that_the_firmware_does_not_have_is_absent(plant, values) -> None:
    host = plant(
        {
            f"{HOST}/statistics/nos_count": "0xffffffffffffffff\n",
            f"{HOST}/statistics/tx_words": "none\n",
            f"{HOST}/statistics/tx_frames": "0x0\n",
        }
    )
    found = values(FibreChannel(host).collect())
    assert {series for series in found if "info" not in series} == {
        'node_fibrechannel_tx_frames_total{fc_host="host3"}'
    }


def test_machine_without_ports_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(FibreChannel(plant({})).collect())
