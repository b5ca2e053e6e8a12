import pytest

from collectors.drbd import Drbd
from collectors.interface.sample import SourceAbsentError

TEXT = """\
version: 8.4.11 (api:1/proto:86-101)
srcversion: 1A9F77B1CA5FF92235C2213

 1: cs:Connected ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----
    ns:10 nr:20 dw:30 dr:40 al:5 bm:6 lo:1 pe:2 ua:3 ap:4 ep:1 wo:d oos:7
 2: cs:WFConnection ro:Secondary/Unknown ds:Diskless/DUnknown C r-----
    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:d oos:0
"""


def test_devices_are_exported_in_bytes(plant, values) -> None:
    found = values(Drbd(plant({"proc/drbd": TEXT})).collect())
    expected = {
        'node_drbd_network_sent_bytes_total{device="drbd1"}': 10240,
        'node_drbd_network_received_bytes_total{device="drbd1"}': 20480,
        'node_drbd_disk_written_bytes_total{device="drbd1"}': 30720,
        'node_drbd_activitylog_writes_total{device="drbd1"}': 5,
        'node_drbd_application_pending{device="drbd1"}': 4,
        'node_drbd_out_of_sync_bytes{device="drbd1"}': 7168,
        'node_drbd_node_role_is_primary{device="drbd1",node="local"}': 1,
        'node_drbd_node_role_is_primary{device="drbd1",node="remote"}': 0,
        'node_drbd_disk_state_is_up_to_date{device="drbd1",node="remote"}': 0,
        'node_drbd_connected{device="drbd1"}': 1,
        'node_drbd_connected{device="drbd2"}': 0,
    }
    assert {series: found[series] for series in expected} == expected


def test_damaged_number_is_left_out(plant, values) -> None:
    found = values(Drbd(plant({"proc/drbd": " 0: cs:Connected ns:x\n"})).collect())
    assert found == {'node_drbd_connected{device="drbd0"}': 1}


def test_machine_without_drbd_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Drbd(plant({})).collect())
