"""Containers start with valid flags, ports, probes, files and users."""

from pathlib import PurePosixPath

import pytest

import agent.config
from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser
from plimsoll.durations import duration

EVALUATOR_PORTS = {"extender": "port", "agents": "agent_port", "ops": "ops_port"}
OPS_PATHS = {"/healthz", "/readyz", "/metrics"}


def workload(objects, name):
    """(pod spec, its first container) of a workload."""
    (found,) = [
        obj["spec"]["template"]["spec"]
        for obj in objects
        if obj["metadata"]["name"] == name and "template" in obj.get("spec", {})
    ]
    (container,) = found["containers"]
    return found, container


def evaluator_settings(container):
    """Parse the arguments as the program does; an unknown flag is an error."""
    parser = Parser("plimsoll-evaluator", about="", examples="", usage="")
    return flags.parse_settings(Settings, parser, argv=container["args"], env={})


@pytest.fixture
def evaluator(built):
    return workload(built("core"), "plimsoll-evaluator")


@pytest.fixture
def services(built):
    """Service -> port name -> the port for clients."""
    return {
        obj["metadata"]["name"]: {port["name"]: port for port in obj["spec"]["ports"]}
        for obj in built("core")
        if obj["kind"] == "Service"
    }


def test_evaluator_accepts_its_flags(evaluator):
    _, container = evaluator
    assert evaluator_settings(container).mistakes() == []
    assert not evaluator_settings(container).unsafe


@pytest.mark.parametrize("component", ["evict", "custom-metrics", "scorers"])
def test_evaluator_accepts_the_flags_of_components(with_components, component):
    _, container = workload(with_components("evaluator", component), "plimsoll-evaluator")
    _, plain = workload(with_components("evaluator"), "plimsoll-evaluator")
    assert evaluator_settings(container).mistakes() == []
    assert evaluator_settings(container) != evaluator_settings(plain)


def test_evaluator_listens_on_its_declared_ports(evaluator):
    _, container = evaluator
    settings = evaluator_settings(container)
    listening = {name: getattr(settings, field) for name, field in EVALUATOR_PORTS.items()}
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == listening


def test_services_target_existing_ports(evaluator, services):
    _, container = evaluator
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    served = [port for of_one in services.values() for port in of_one.values()]
    assert {port["targetPort"] for port in served} == ports.keys()
    for port in served:
        assert port["port"] == ports[port["targetPort"]], port


def test_agents_reach_replicas_that_are_not_ready(built):
    """A replica is not ready before agents have reported: they must reach it before."""
    (service,) = [
        obj
        for obj in built("core")
        if obj["kind"] == "Service" and any(p["name"] == "agents" for p in obj["spec"]["ports"])
    ]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["clusterIP"] == "None"


def test_probes_use_the_ops_port(evaluator):
    _, container = evaluator
    probes = {name: body["httpGet"] for name, body in container.items() if name.endswith("Probe")}
    assert probes["livenessProbe"] == {"path": "/healthz", "port": "ops"}
    assert probes["readinessProbe"] == {"path": "/readyz", "port": "ops"}


@pytest.mark.parametrize("name", ["plimsoll-evaluator", "plimsoll-agent"])
def test_one_failed_probe_has_no_effect(built, name):
    _, container = workload(built("core"), name)
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe].get("failureThreshold", 3) >= 2


def test_stopping_leader_has_time_to_release_its_lease(evaluator):
    """More than --shutdownDelay and the time limits of open requests and of the lease together."""
    pod, container = evaluator
    given = [arg for arg in container["args"] if arg.startswith("--shutdownDelay=")]
    delay = duration(given[-1].partition("=")[2]) if given else Settings().shutdown_delay
    assert delay >= 5, "kube-proxy needs some seconds to remove an endpoint"
    assert pod["terminationGracePeriodSeconds"] >= delay + 15


@pytest.mark.parametrize("name", ["plimsoll-evaluator", "plimsoll-agent"])
def test_files_named_by_flags_are_mounted(built, name):
    _, container = workload(built("core"), name)
    mounts = [PurePosixPath(mount["mountPath"]) for mount in container.get("volumeMounts", [])]
    files = [PurePosixPath(arg.partition("=")[2]) for arg in container["args"] if "=/" in arg]
    for file in files:
        assert any(file.is_relative_to(mount) for mount in mounts), file


@pytest.mark.parametrize("name", ["plimsoll-evaluator", "plimsoll-agent"])
def test_every_volume_is_mounted_and_every_mount_is_a_volume(built, name):
    pod, container = workload(built("core"), name)
    volumes = [volume["name"] for volume in pod.get("volumes", [])]
    mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
    assert len(volumes) == len(set(volumes))
    assert set(volumes) == mounts


def test_evaluator_runs_unprivileged_and_read_only(evaluator):
    pod, container = evaluator
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(mount["readOnly"] for mount in container["volumeMounts"])


def test_replicas_spread_survive_a_drain_and_have_priority(built):
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in built("evaluator")}
    name = "plimsoll-evaluator"
    spec = objects["Deployment", name]["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert objects["PodDisruptionBudget", name]["spec"]["maxUnavailable"] == 1
    assert {one["topologyKey"] for one in pod["topologySpreadConstraints"]} >= {
        "kubernetes.io/hostname"
    }
    assert objects["PriorityClass", pod["priorityClassName"]]["value"] > 0


def test_evaluator_does_not_depend_on_itself(evaluator):
    """A pod with the managed resource cannot be placed while there is no extender."""
    _, container = evaluator
    assert "telemetry/scheduling" not in str(container["resources"])


def test_agent_accepts_its_flags_and_streams_to_the_service(built, services):
    _, container = workload(built("core"), "plimsoll-agent")
    env = {one["name"]: one.get("value", "node-a") for one in container.get("env", [])}
    settings = agent.config.parse(container["args"], env, hostname="pod")
    assert settings.host.name == "node-a"
    host, _, port = str(settings.evaluator_address).rpartition(":")
    service, namespace, *_ = host.split(".")
    assert namespace == "plimsoll"
    assert {one["port"] for one in services[service].values()} == {int(port)}
