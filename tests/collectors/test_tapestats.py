import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.tapestats import Options as TapestatsOptions
from collectors.tapestats import Tapestats

TAPE = "sys/class/scsi_tape"
FILES = {
    "in_flight": 1,
    "io_ns": 9_247_011_087_720,
    "other_cnt": 1409,
    "read_byte_cnt": 979_383_912,
    "read_cnt": 3741,
    "read_ns": 33_788_355_744,
    "resid_cnt": 19,
    "write_byte_cnt": 1_496_246_784_000,
    "write_cnt": 53_772_916,
    "write_ns": 5_233_597_394_395,
}


def test_statistics_are_exported_in_seconds_and_bytes(plant, values) -> None:
    host = plant({f"{TAPE}/st0/stats/{name}": f"{n}\n" for name, n in FILES.items()})
    found = values(Tapestats(host, TapestatsOptions()).collect())
    assert found == {
        f'node_tape_{name}{{device="st0"}}': pytest.approx(value)
        for name, value in {
            "io_now": 1,
            "io_time_seconds_total": 9247.01108772,
            "io_others_total": 1409,
            "read_bytes_total": 979_383_912,
            "reads_completed_total": 3741,
            "read_time_seconds_total": 33.788355744,
            "residual_total": 19,
            "written_bytes_total": 1_496_246_784_000,
            "writes_completed_total": 53_772_916,
            "write_time_seconds_total": 5233.597394395,
        }.items()
    }


def test_other_names_of_a_drive_and_ignored_drives_are_left_out(plant, values) -> None:
    names = ("st0", "nst0", "st0a", "st1")
    host = plant({f"{TAPE}/{name}/stats/read_cnt": "1\n" for name in names})
    found = values(Tapestats(host, TapestatsOptions("st1")).collect())
    assert list(found) == ['node_tape_reads_completed_total{device="st0"}']


def test_unreadable_number_is_absent(plant, values) -> None:
    host = plant({f"{TAPE}/st0/stats/read_cnt": "many\n", f"{TAPE}/st0/stats/write_cnt": "2\n"})
    found = values(Tapestats(host, TapestatsOptions()).collect())
    assert found == {'node_tape_writes_completed_total{device="st0"}': 2}


def test_machine_without_tapes_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Tapestats(plant({}), TapestatsOptions()).collect())
