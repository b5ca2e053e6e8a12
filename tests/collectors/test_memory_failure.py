import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.memory_failure import MemoryFailure

NODE = "sys/devices/system/node/node"


def counts(node: int, **results: int) -> dict[str, str]:
    return {f"{NODE}{node}/memory_failure/{name}": f"{count}\n" for name, count in results.items()}


def test_pages_are_by_node_and_result_without_their_sum(plant, values) -> None:
    machine = plant(
        {
            **counts(0, total=5, ignored=1, failed=1, delayed=0, recovered=3),
            **counts(1, total=0, ignored=0, failed=0, delayed=0, recovered=0),
        }
    )
    name = "node_memory_failure_pages_total"
    assert values(MemoryFailure(machine).collect()) == {
        f'{name}{{node="0",result="delayed"}}': 0,
        f'{name}{{node="0",result="failed"}}': 1,
        f'{name}{{node="0",result="ignored"}}': 1,
        f'{name}{{node="0",result="recovered"}}': 3,
        f'{name}{{node="1",result="delayed"}}': 0,
        f'{name}{{node="1",result="failed"}}': 0,
        f'{name}{{node="1",result="ignored"}}': 0,
        f'{name}{{node="1",result="recovered"}}': 0,
    }


def test_new_result_of_a_later_kernel_is_exported(plant, values) -> None:
    machine = plant(counts(0, total=2, soft_offline=2))
    assert values(MemoryFailure(machine).collect()) == {
        'node_memory_failure_pages_total{node="0",result="soft_offline"}': 2
    }


def test_node_that_comes_online_is_added(plant, values) -> None:
    machine = plant(counts(0, recovered=0))
    collector = MemoryFailure(machine)
    assert len(values(collector.collect())) == 1
    plant(counts(2, recovered=4))
    assert (
        values(collector.collect())['node_memory_failure_pages_total{node="2",result="recovered"}']
        == 4
    )


@pytest.mark.parametrize(
    "files",
    [{}, {f"{NODE}0/meminfo": ""}, counts(0, total=3), {f"{NODE}0/memory_failure/failed": "x"}],
)
def test_older_kernels_are_an_absent_source(plant, files) -> None:
    with pytest.raises(SourceAbsentError):
        list(MemoryFailure(plant(files)).collect())
