import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.swap import Swap, parse

HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def test_size_use_and_priority_are_exported(values) -> None:
    text = f"{HEAD}/dev/zram0   partition\t8388604\t\t76\t\t100\n/swap\\040file file 1024 0 -2\n"
    assert values(parse(text)) == {
        'node_swap_size_bytes{device="/dev/zram0",swap_type="partition"}': 8388604 * 1024,
        'node_swap_used_bytes{device="/dev/zram0",swap_type="partition"}': 76 * 1024,
        'node_swap_priority{device="/dev/zram0",swap_type="partition"}': 100,
        'node_swap_size_bytes{device="/swap file",swap_type="file"}': 1 << 20,
        'node_swap_used_bytes{device="/swap file",swap_type="file"}': 0,
        'node_swap_priority{device="/swap file",swap_type="file"}': -2,
    }


def test_machine_that_does_not_swap_exports_nothing(values) -> None:
    assert values(parse(HEAD)) == {}


@pytest.mark.parametrize("line", ["/dev/a", "/dev/a partition 1 2", "/dev/a partition 1 x 3"])
def test_damaged_line_is_an_error(line: str) -> None:
    with pytest.raises(CollectorError, match="swaps"):
        list(parse(f"{HEAD}{line}\n"))


def test_kernel_without_swap_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Swap(plant({})).collect())
