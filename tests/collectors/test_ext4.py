import pytest

from collectors.ext4 import Ext4
from collectors.interface.sample import SourceAbsentError


def filesystem(device: str, **numbers: str) -> dict[str, str]:
    return {f"sys/fs/ext4/{device}/{name}": f"{text}\n" for name, text in numbers.items()}


def test_errors_since_the_last_check_are_exported_with_their_times(plant, values) -> None:
    host = plant(
        {
            "sys/fs/ext4/features/lazy_itable_init": "supported\n",
            **filesystem(
                "dm-0",
                errors_count="3",
                warning_count="5",
                first_error_time="1770000000",
                last_error_time="1770000600",
            ),
            **filesystem(
                "sda1",
                errors_count="0",
                warning_count="0",
                first_error_time="0",
                last_error_time="0",
            ),
        }
    )
    assert values(Ext4(host).collect()) == {
        'node_ext4_errors{device="dm-0"}': 3,
        'node_ext4_warnings_total{device="dm-0"}': 5,
        'node_ext4_first_error_time_seconds{device="dm-0"}': 1770000000,
        'node_ext4_last_error_time_seconds{device="dm-0"}': 1770000600,
        'node_ext4_errors{device="sda1"}': 0,
        'node_ext4_warnings_total{device="sda1"}': 0,
    }


def test_missing_count_is_absent(plant, values) -> None:
    host = plant(filesystem("sda1", errors_count="1", warning_count="many"))
    assert values(Ext4(host).collect()) == {'node_ext4_errors{device="sda1"}': 1}


@pytest.mark.parametrize("files", [{}, {"sys/fs/ext4/features/casefold": "supported\n"}])
def test_machine_without_ext4_has_no_source(plant, files) -> None:
    with pytest.raises(SourceAbsentError):
        list(Ext4(plant(files)).collect())
