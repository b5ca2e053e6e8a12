import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.nvmesubsystem import NvmeSubsystem, state_of

SUBSYSTEM = "sys/class/nvme-subsystem/nvme-subsys0"
FILES = {
    f"{SUBSYSTEM}/subsysnqn": "nqn.2014-08.org.nvmexpress:uuid:1\n",
    f"{SUBSYSTEM}/model": "Array\n",
    f"{SUBSYSTEM}/iopolicy": "round-robin\n",
    f"{SUBSYSTEM}/nvme0/state": "live\n",
    f"{SUBSYSTEM}/nvme0/transport": "tcp\n",
    f"{SUBSYSTEM}/nvme1/state": "connecting\n",
    f"{SUBSYSTEM}/nvme1/transport": "tcp\n",
    f"{SUBSYSTEM}/nvme0n1/size": "1\n",
}


def test_paths_and_their_states_are_exported(plant, values) -> None:
    found = values(NvmeSubsystem(plant(FILES)).collect())
    of = 'subsystem="nvme-subsys0"'
    info = f'{of},nqn="nqn.2014-08.org.nvmexpress:uuid:1",model="Array",serial="",iopolicy="round-robin"'
    states = {series for series in found if "path_state" in series}
    assert {series: value for series, value in found.items() if series not in states} == {
        f"node_nvmesubsystem_info{{{info}}}": 1,
        f'node_nvmesubsystem_namespace_info{{{of},device="nvme0n1"}}': 1,
        f"node_nvmesubsystem_paths{{{of}}}": 2,
        f"node_nvmesubsystem_paths_live{{{of}}}": 1,
    }
    assert len(states) == 14
    assert {series for series in states if found[series]} == {
        f'node_nvmesubsystem_path_state{{{of},controller="nvme0",transport="tcp",state="live"}}',
        f'node_nvmesubsystem_path_state{{{of},controller="nvme1",transport="tcp",state="connecting"}}',
    }


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("live", "live"),
        ("deleting (no IO)", "deleting"),
        ("asleep", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_state_of_a_controller(text: str | None, state: str) -> None:
    assert state_of(text) == state


def test_machine_without_nvme_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(NvmeSubsystem(plant({})).collect())
