import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.kernel_events import KernelEvents


def test_kernel_failures_since_boot_are_exported(plant, values) -> None:
    machine = plant(
        {
            "sys/kernel/oops_count": "1\n",
            "sys/kernel/warn_count": "7\n",
            "sys/kernel/softlockup_count": "2\n",
            "sys/kernel/hardlockup_count": "0\n",
            "sys/kernel/rcu_stall_count": "3\n",
        }
    )
    assert values(KernelEvents(machine).collect()) == {
        "node_kernel_oops_total": 1,
        "node_kernel_warn_total": 7,
        "node_kernel_softlockup_total": 2,
        "node_kernel_hardlockup_total": 0,
        "node_kernel_rcu_stall_total": 3,
    }


def test_kernels_6_2_to_6_15_have_two_counters(plant, values) -> None:
    machine = plant({"sys/kernel/oops_count": "0\n", "sys/kernel/warn_count": "12\n"})
    assert values(KernelEvents(machine).collect()) == {
        "node_kernel_oops_total": 0,
        "node_kernel_warn_total": 12,
    }


@pytest.mark.parametrize("files", [{}, {"sys/kernel/notes": ""}, {"sys/kernel/oops_count": "\n"}])
def test_older_kernels_are_an_absent_source(plant, files) -> None:
    with pytest.raises(SourceAbsentError):
        list(KernelEvents(plant(files)).collect())


def test_non_number_is_omitted(plant, values) -> None:
    machine = plant({"sys/kernel/oops_count": "many\n", "sys/kernel/warn_count": "12\n"})
    assert values(KernelEvents(machine).collect()) == {"node_kernel_warn_total": 12}
