import pytest

from collectors.bcache import Bcache, parse_size
from collectors.bcache import Options as BcacheOptions
from collectors.interface.sample import SourceAbsentError

UUID = "aa52d4ba-5a0f-4a37-9c2e-1a8a3b8b1d2c"
SET = f"sys/fs/bcache/{UUID}"
FILES = {
    f"{SET}/congested": "2\n",
    f"{SET}/btree_cache_size": "1.5M\n",
    f"{SET}/internal/btree_read_average_duration_us": "1305\n",
    f"{SET}/internal/cache_read_races": "4\n",
    f"{SET}/bdev0/dirty_data": "512k\n",
    f"{SET}/bdev0/stats_total/cache_hits": "546\n",
    f"{SET}/bdev0/writeback_rate_debug": "rate:\t4.0k/sec\ndirty:\t1.0G\ntarget:\t2.0G\nchange:\t-1.0k/sec\nnext io:\t17ms\n",
    f"{SET}/cache0/written": "3.0k\n",
    f"{SET}/cache0/priority_stats": "Unused:\t\t99%\nMetadata:\t1%\nAverage:\t10473\n",
    "sys/fs/bcache/register": "\n",
}


def test_sets_and_devices_are_exported(plant, values) -> None:
    of_set, backing = f'{{uuid="{UUID}"}}', f'{{uuid="{UUID}",backing_device="bdev0"}}'
    assert values(Bcache(plant(FILES), BcacheOptions()).collect()) == {
        f"node_bcache_congested{of_set}": 2,
        f"node_bcache_btree_cache_size_bytes{of_set}": int(1.48828125 * (1 << 20)),
        f"node_bcache_btree_read_average_duration_seconds{of_set}": pytest.approx(1.305e-6),
        f"node_bcache_cache_read_races_total{of_set}": 4,
        f"node_bcache_dirty_data_bytes{backing}": 512 << 10,
        f"node_bcache_cache_hits_total{backing}": 546,
        f"node_bcache_writeback_rate{backing}": 4096,
        f"node_bcache_dirty_target_bytes{backing}": 2 << 30,
        f"node_bcache_writeback_change{backing}": -1024,
        f'node_bcache_written_bytes_total{{uuid="{UUID}",cache_device="cache0"}}': 3072,
    }


def test_priority_statistics_are_read_only_if_enabled(plant, values) -> None:
    found = values(Bcache(plant(FILES), BcacheOptions(bcache_priority_stats=True)).collect())
    cache = f'{{uuid="{UUID}",cache_device="cache0"}}'
    assert found[f"node_bcache_priority_stats_unused_percent{cache}"] == 99
    assert found[f"node_bcache_priority_stats_metadata_percent{cache}"] == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1024", 1024),
        ("2k", 2048),
        # The digit after the point is the remainder (0 to 1023) divided by 100, so .10 is more than .9
        ("1.9k", int((1 + 9 / 10.24) * 1024)),
        ("1.10k", int((1 + 10 / 10.24) * 1024)),
        ("-3.0k", -3072),
        ("", None),
        ("1.5.2", None),
        ("many", None),
        ("9" * 400, None),
    ],
)
def test_sizes_are_parsed_as_the_kernel_writes_them(text: str, value: float | None) -> None:
    assert parse_size(text) == value


def test_machine_without_bcache_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Bcache(plant({}), BcacheOptions()).collect())
