"""components/kernel-log: the rights of the reader beside the agent, and the shipped configuration on recorded lines."""

import json
import re

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
