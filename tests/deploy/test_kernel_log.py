"""components/kernel-log: the rights of the reader beside the agent, and the shipped configuration on recorded lines."""

import json
import re
from collections.abc import Sequence

import pytest

import agent.config
from agent.kernel_log import KernelLogOptions
from collectors.problems.tracking import DEFAULTS
from collectors.shared.problems import monitors
from collectors.shared.problems.matching import LineMatcher
from plimsoll import flags
from plimsoll.commandline import Parser
from sandbox.inject import inject, kernel_log
from sandbox.machine import Machine
from tests.collectors.problems.recorded import HARMLESS, KERNEL


@pytest.fixture
def rendered(with_components):
    return with_components("core", "kernel-log")


def pod_of(objects):
    (daemonset,) = [o for o in objects if o["kind"] == "DaemonSet"]
    return daemonset["spec"]["template"]["spec"]


def test_reader_has_one_capability_and_no_part_of_the_host(rendered) -> None:
    pod = pod_of(rendered)
    (reader,) = [c for c in pod["containers"] if c["name"] == "kernel-log"]
    assert reader["securityContext"] == {
        "runAsNonRoot": False,
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYSLOG"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert [m["name"] for m in reader["volumeMounts"]] == ["kernel-log"]
    (volume,) = [v for v in pod["volumes"] if v["name"] == "kernel-log"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}
    assert "ports" not in reader
    assert "env" not in reader
    assert "memory" in reader["resources"]["limits"]
    assert not [f for f in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace") if pod.get(f)]  # fmt: skip
    assert pod["automountServiceAccountToken"] is False


def test_agent_stays_without_privileges(rendered, built) -> None:
    (before,) = pod_of(built("core"))["containers"]
    (after,) = [c for c in pod_of(rendered)["containers"] if c["name"] == "agent"]
    assert after["securityContext"] == before["securityContext"]
    added = [m for m in after["volumeMounts"] if m not in before["volumeMounts"]]
    assert [(m["name"], m["readOnly"]) for m in added] == [("problems", True), ("kernel-log", True)]


def test_both_ends_name_the_same_socket_and_user(rendered) -> None:
    pod = pod_of(rendered)
    reader, main = (next(c for c in pod["containers"] if c["name"] == n) for n in ("kernel-log", "agent"))  # fmt: skip
    parser = Parser("kernel-log", about="", examples="", usage="")
    chosen = flags.parse_settings(KernelLogOptions, parser, argv=reader["args"][1:], env={})
    settings = agent.config.parse(main["args"], {}, hostname="node").collectors["problems"]
    assert reader["args"][0] == "kernel-log"
    assert settings.problems_kernel_log == f"unix:{chosen.socket}"
    assert chosen.uids == (pod["securityContext"]["runAsUser"],)
    assert settings.problems_state_file.startswith("/var/lib/plimsoll/")


def test_shipped_configuration_finds_each_recorded_problem(rendered, tmp_path) -> None:
    (config,) = [o for o in rendered if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "plimsoll-problems"]  # fmt: skip
    monitor = monitors.parse(config["data"]["kernel.json"], "kernel.json")
    renamed = {"DockerHung": "RuntimeHung"}
    for reason, line in KERNEL.items():
        found = {m.rule.reason for m in LineMatcher(monitor.rules, monitor.lines).push(line)}
        assert renamed.get(reason, reason) in found
    modern = "BUG: kernel NULL pointer dereference, address: 0000000000000008"
    assert [m.rule.reason for m in LineMatcher(monitor.rules, 1).push(modern)] == ["KernelOops"]
    Machine(tmp_path / "node").create()
    kernel_log(tmp_path, "node").touch()
    for fault, reason in (("xid", "GPUXidError"), ("link", "LinkDown"), ("dimm", "MemoryReadError"), ("read-only", "FilesystemIsReadOnly")):  # fmt: skip
        matcher = LineMatcher(monitor.rules, monitor.lines)
        texts = inject(tmp_path, "node", fault)
        assert reason in [m.rule.reason for text in texts for m in matcher.push(text)]
    matcher = LineMatcher(monitor.rules, monitor.lines)
    assert [m.rule.reason for line in HARMLESS for m in matcher.push(line)] == []
    assert json.loads(config["data"]["kernel.json"])["plugin"] == "kmsg"
    assert set(DEFAULTS) <= {c.type for c in monitor.conditions}


OOPSES = (
    "BUG: unable to handle page fault for address: ffff888100001234",
    "Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP",
    "Oops: 0002 [#1] SMP NOPTI",
    "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000040",
    "Unable to handle kernel write to read-only memory at virtual address ffff800081230000",
    "Internal error: Oops: 0000000096000046 [#3] PREEMPT SMP",
    "Internal error: synchronous external abort: 0000000096000410 [#1] SMP",
    "BUG: Kernel NULL pointer dereference on read at 0x00000008",
    "BUG: Unable to handle kernel data access at 0xc00c000000000120",
    "Oops: Kernel access of bad area, sig: 7 [#2]",
    "Oops: Exception in kernel mode, sig: 5 [#1]",
    "Unable to handle kernel pointer dereference in virtual kernel address space",
    "Oops: 003b ilc:3 [#1] SMP",
    "specification exception: 0006 ilc:2 [#1] SMP",
    "Unable to handle kernel paging request at virtual address ff60000000001000",
    "Oops [#1]",
    "Oops - load access fault [#1]",
    "kernel BUG at fs/inode.c:611!",
)
STATUSES = (
    *("operation not supported", "timeout", "critical space allocation", "recoverable transport"),
    *("critical target", "critical nexus", "reservation conflict", "critical medium", "protection"),
    *("kernel resource", "device resource", "nonblocking retry", "device offline", "I/O"),
    *("dm internal retry", "open zones exceeded", "active zones exceeded", "invalid"),
    "duration limit exceeded",
)
"""Of blk_errors in the kernel's block/blk-core.c."""
DOWN = (
    "mlx5_core 0000:5e:00.1 ens2f1np1: Link down",
    "igb 0000:09:00.1 eno2: igb: eno2 NIC Link is Down",
    "enic 0000:1d:00.0 eth5: Link DOWN",
    "mlx4_en: ens3d1: Link Down",
    "ice 0000:98:00.0 ens4f0: NIC Link is Down",
    "bond1: (slave ens2f0): link status definitely down, disabling slave",
    "bonding: bond0: link status definitely down for interface eth1, disabling it",
    "fec 30be0000.ethernet eth0: Link is Down",
    "xgene-enet APMC0D05:00 eth0: Link is Down",
    "fsl_dpaa2_eth dpni.1 end1: Link is Down",
    "lan78xx 1-1.1:1.0 eth0: Link is Down",
    "mvneta d0030000.ethernet lan2: Link is Down",
    "gve 0000:00:04.0: Device link is down.",
)
DIMMS = (
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1 offset:0x40)",
    "EDAC MC0: 1 UE memory read error on DIMM_A1 (channel:0 slot:0)",
    "EDAC MC0: 1 CE Single-bit ECC on BANK 0 DIMM 1 (node:0 card:1 module:0 bank:0 row:8192 col:0 page:0x80000)",
    "EDAC MC1: 2 UE Multi-bit ECC on unknown label (node:0 card:0 module:0 rank:1 bank:0 page:0x966a9b3)",
    "EDAC MC0: 1 CE Single-symbol ChipKill ECC on N0 DIMM_A0 (node:0 card:0 module:0 page:0x0)",
    "EDAC MC0: 1 CE single-symbol chipkill ECC on unknown memory (node: 0 card: 0 module: 0 rank: 0 bank: 1282)",
    "EDAC MC0: 1 CE on mc#0csrow#1channel#0 (csrow:1 channel:0 page:0xcaed59 offset:0x8e0 grain:64 syndrome:0x100)",
)
"""Of Intel's drivers, of firmware (ghes_edac: arm64 and others) and of AMD's driver."""
LOCKUPS = (
    "NMI watchdog: Watchdog detected hard LOCKUP on cpu 1",
    "watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3",
    "watchdog: CPU 8 self-detected hard LOCKUP @ queued_spin_lock_slowpath+0x154/0x2d0",
    "watchdog: CPU 12 detected hard LOCKUP on other CPUs 8",
)
"""Of older kernels, of current ones, and of powerpc."""


@pytest.mark.parametrize(
    ("reason", "texts"),
    [
        ("KernelOops", OOPSES),
        ("IOError", [f"{status} error, dev sdc, sector 8 op 0x0:(READ) flags 0x0" for status in STATUSES]),
        ("IOError", ["nvme0n1: Read(0x2) @ LBA 71, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR"]),
        ("LinkDown", DOWN),
        ("TaskHung", ["INFO: task md0_raid5:812 blocked in I/O wait for more than 245 seconds."]),
        ("RuntimeHung", ["INFO: task kubelet:81 blocked in I/O wait for more than 122 seconds."]),
        ("GPUXidError", ["NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=1, name=x, Contained"]),
        ("GPUXidError", ["nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"]),
        ("FilesystemIsReadOnly", ["BTRFS info (device sdd2 state E): forced readonly"]),
        ("MemoryReadError", DIMMS),
        ("HardLockup", LOCKUPS),
        ("SoftLockup", ["watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:0:77]"]),
    ],
)  # fmt: skip
def test_texts_of_current_kernels_and_all_architectures_count_once(
    reason: str, texts: Sequence[str], rendered
) -> None:
    (config,) = [o for o in rendered if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "plimsoll-problems"]  # fmt: skip
    monitor = monitors.parse(config["data"]["kernel.json"], "kernel.json")
    for text in texts:
        found = [m.rule.reason for m in LineMatcher(monitor.rules, monitor.lines).push(text)]
        assert found.count(reason) == 1, text
        assert set(found) <= {reason, "TaskHung"}, text
    for text in (
        "ata3: SATA link down (SStatus 0 SControl 300)",
        "pcieport 0000:00:1d.0: pciehp: Slot(12): Link Down",
        "INFO: task (udev-worker):374 is blocked on a mutex likely owned by task kubelet:991.",
        "EDAC MC0: Giving out device to module skx_edac",
        "EDAC MC0: 1 CE memory scrubbing error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0)",
        "cxl afu0.0: Device link is down, refusing to enable AFU",
        "mvneta d0030000.ethernet lan2: Link is Up - 1Gbps/Full - flow control off",
    ):
        assert LineMatcher(monitor.rules, monitor.lines).push(text) == [], text


def test_each_pattern_names_its_source_in_the_kernel(rendered) -> None:
    (config,) = [o for o in rendered if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "plimsoll-problems"]  # fmt: skip
    rules = json.loads(config["data"]["kernel.json"])["rules"]
    assert [rule for rule in rules if not rule.get("kernel")] == []


def test_guard_admits_exactly_the_configured_conditions(with_components) -> None:
    rendered = with_components("core", "guard", "problem-conditions")
    (deployment,) = [o for o in rendered if o["kind"] == "Deployment"]
    (evaluator,) = deployment["spec"]["template"]["spec"]["containers"]
    (flag,) = [a for a in evaluator["args"] if a.startswith("--problemConditions=")]
    types = flag.partition("=")[2].split(",")
    (guard,) = [o for o in rendered if o["kind"] == "ValidatingAdmissionPolicy" and o["metadata"]["name"] == "plimsoll-evaluator"]  # fmt: skip
    listed = [re.findall(r"one\.type in \[([^]]*)\]", v["expression"]) for v in guard["spec"]["validations"]]  # fmt: skip
    (both,) = [found for found in listed if found]
    assert [re.findall(r"'(\w+)'", found) for found in both] == [types, types]
    (config,) = [o for o in with_components("core", "kernel-log") if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "plimsoll-problems"]  # fmt: skip
    monitor = monitors.parse(config["data"]["kernel.json"], "kernel.json")
    assert {c.type for c in monitor.conditions} == set(types)
