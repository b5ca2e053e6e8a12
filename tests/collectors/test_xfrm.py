import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.xfrm import Xfrm, parse


def test_errors_are_exported_and_unknown_ones_left_out(plant, values) -> None:
    text = "XfrmInError \t1\nXfrmInNoPols 65432\nXfrmFwdHdrError 3\nXfrmOfTomorrow 9\n"
    assert values(Xfrm(plant({"proc/net/xfrm_stat": text})).collect()) == {
        "node_xfrm_in_error_packets_total": 1,
        "node_xfrm_in_no_pols_packets_total": 65432,
        "node_xfrm_fwd_hdr_error_packets_total": 3,
    }


def test_damaged_number_is_an_error() -> None:
    with pytest.raises(CollectorError, match="XfrmInError"):
        list(parse("XfrmInError one\n"))


def test_kernel_without_ipsec_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Xfrm(plant({})).collect())
