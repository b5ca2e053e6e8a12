import pytest

from collectors import kernel_hung
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.kernel_hung import KernelHung, parse

PARSERS = {
    "kernel_hung": kernel_hung.parse,
}


def test_hung_tasks_are_exported(machine, values) -> None:
    assert values(KernelHung(machine("xeon")).collect()) == {"node_kernel_hung_tasks_total": 3}


def test_kernels_before_6_14_are_an_absent_source(machine) -> None:
    with pytest.raises(SourceAbsentError):
        list(KernelHung(machine("vm2012")).collect())


@pytest.mark.parametrize("text", ["", "\n", "-1\n", "1.5\n", "many\n", "9" * 40])
def test_non_number_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="hung_task_detect_count"):
        list(parse(text))
