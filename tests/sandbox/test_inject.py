"""Faults of a simulated node: its kernel's log, and what the real collectors read from its files and GPUs."""

import re

import pytest

from collectors.edac import ENTRY as EDAC
from collectors.ext4 import ENTRY as EXT4
from collectors.filesystem import ENTRY as FILESYSTEM
from collectors.gpu import Gpu, nvml
from collectors.interface.host import Host
from collectors.kernel_events import ENTRY as KERNEL_EVENTS
from collectors.netclass import ENTRY as NETCLASS
from collectors.problems import xids
from plimsoll.kernellog.readers import FileReader
from sandbox.gpus import FakeLibrary
from sandbox.inject import FAULTS, RECOVERY_ACTIONS, InjectError, inject, kernel_log, repair
from sandbox.machine import DISK, GPUS, LINK, Machine

FIXED = {
    "node_ext4_errors": f"device={DISK}",
    "node_ext4_last_error_time_seconds": f"device={DISK}",
    "node_filesystem_emergency_readonly": f"device=/dev/{DISK}",
    "node_edac_dimm_correctable_errors_total": "controller=0",
    "node_network_up": f"device={LINK}",
    "node_network_carrier_changes_total": f"device={LINK}",
    "node_kernel_oops_total": "",
    "DCGM_FI_DEV_GPU_RECOVERY_ACTION": "pci_bus_id=00000000:3B:00.0",
    "DCGM_EXP_XID_ERRORS_COUNT": "pci_bus_id=00000000:3B:00.0",
}
"""Metrics and the label of the simulated device."""


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "a folder"
    Machine(root / "node-b").create()
    kernel_log(root, "node-b").touch()
    return root


@pytest.fixture
def readings(folder):
    """What the collectors read now of the simulated devices."""
    machine = Machine(folder / "node-b")
    host = Host(name="node-b", procfs=machine.procfs, sysfs=machine.sysfs)
    library = FakeLibrary(machine.gpus)
    built = [entry.build(host, entry.options()) for entry in (EDAC, EXT4, FILESYSTEM, KERNEL_EVENTS, NETCLASS)]  # fmt: skip
    built.append(Gpu(host, lambda: nvml.open_gpus(lambda _: library)))

    def read():
        found = {}
        for family in (family for collector in built for family in collector.collect()):
            if family.name not in FIXED:
                continue
            for sample in family.samples:
                labels = [f"{name}={value}" for name, value in sample.labels]
                if not FIXED[family.name] or FIXED[family.name] in labels:
                    found[family.name] = sample.value
        return found

    return read


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_a_record_of_the_kernel(folder, fault) -> None:
    texts = inject(folder, "node-b", fault) + inject(folder, "node-b", fault)
    batch = FileReader(kernel_log(folder, "node-b")).read(0)
    assert batch.lost == 0
    assert [record.text for record in batch.records] == texts
    assert [record.sequence for record in batch.records] == [*range(1, len(texts) + 1)]
    assert all(record.of_kernel and record.microseconds for record in batch.records)


HEALTHY = {
    "node_ext4_errors": 0,
    "node_filesystem_emergency_readonly": 0,
    "node_edac_dimm_correctable_errors_total": 0,
    "node_network_up": 1,
    "node_network_carrier_changes_total": 1,
    "node_kernel_oops_total": 0,
    "DCGM_FI_DEV_GPU_RECOVERY_ACTION": 0,
}


@pytest.mark.parametrize(
    ("fault", "arguments", "sick", "repaired"),
    [
        ("ext4", [], {"node_ext4_errors": 1}, {}),
        ("read-only", [], {"node_filesystem_emergency_readonly": 1}, {}),
        ("dimm", ["12"], {"node_edac_dimm_correctable_errors_total": 12}, {}),
        ("link", [], {"node_network_carrier_changes_total": 3}, None),
        (
            "link",
            ["down"],
            {"node_network_up": 0, "node_network_carrier_changes_total": 2},
            {"node_network_carrier_changes_total": 3},
        ),
        ("oops", [], {"node_kernel_oops_total": 1}, None),
        (
            "xid",
            ["79"],
            {"DCGM_FI_DEV_GPU_RECOVERY_ACTION": 2, "DCGM_EXP_XID_ERRORS_COUNT": 1},
            {"DCGM_EXP_XID_ERRORS_COUNT": 1},
        ),
        (
            "xid",
            ["48", "0000:3B:00"],
            {"DCGM_FI_DEV_GPU_RECOVERY_ACTION": 1, "DCGM_EXP_XID_ERRORS_COUNT": 1},
            {"DCGM_EXP_XID_ERRORS_COUNT": 1},
        ),
        ("xid", ["13"], {"DCGM_EXP_XID_ERRORS_COUNT": 1}, None),
        ("xid", ["79", GPUS[1]], {}, {}),
        ("xid", ["79", "0000:99:00"], {}, {}),
        ("hung", [], {}, None),
    ],
)
def test_state_has_the_fault_until_the_repair(
    folder, readings, fault, arguments, sick, repaired
) -> None:
    before = readings()
    assert before == HEALTHY
    inject(folder, "node-b", fault, arguments)
    now = readings()
    if fault == "ext4":
        assert now.pop("node_ext4_last_error_time_seconds") > 0
    assert now == before | sick
    if repaired is not None:
        repair(folder, "node-b", fault, arguments)
        assert readings() == before | repaired


def test_rest_of_the_machine_is_this_machine(folder) -> None:
    machine = Machine(folder / "node-b")
    for file in ("meminfo", "sys/kernel/random/boot_id", "self/status"):
        assert (machine.procfs / file).read_text().split("\n")[0]
    assert (machine.sysfs / "devices/system/cpu/possible").exists()
    assert not any(name.name.isdigit() for name in machine.procfs.iterdir() if name.name != "1")


def test_new_cluster_in_the_folder_has_no_old_faults(folder, readings) -> None:
    inject(folder, "node-b", "ext4")
    Machine(folder / "node-b").create()
    assert readings()["node_ext4_errors"] == 0


def test_driver_says_what_the_catalogue_says() -> None:
    numbers = {xids.XidAction.RESET: 1, xids.XidAction.REBOOT: 2}
    assert {code: numbers[action] for code, (action, _) in xids.ACTIONS.items() if action in numbers} == RECOVERY_ACTIONS  # fmt: skip


def test_xid_has_the_code_and_device_that_are_given(folder) -> None:
    (text,) = inject(folder, "node-b", "xid", ["48", "0000:5e:00"])
    assert text.startswith("NVRM: Xid (PCI:0000:5e:00): 48, ")


@pytest.mark.parametrize(
    ("change", "node", "fault", "arguments", "message"),
    [
        (inject, "node-x", "oops", [], "is a sandbox running"),
        (inject, "node-b", "meteor", [], "no fault 'meteor': xid, oops"),
        (inject, "node-b", "xid", ["many"], "xid takes a number, such as 79"),
        (inject, "node-b", "dimm", ["²"], "dimm takes a number, such as 1,"),
        (inject, "node-b", "link", ["up"], "link takes `down`, or nothing"),
        (repair, "node-b", "hung", [], "a reboot ends it, or `kubectl plimsoll ack node/node-b"),
        (repair, "node-x", "ext4", [], "is a sandbox running"),
    ],
)
def test_mistakes_are_explained(folder, change, node, fault, arguments, message) -> None:
    with pytest.raises(InjectError, match=re.escape(message)):
        change(folder, node, fault, arguments)
