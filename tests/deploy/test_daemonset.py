"""The agent's DaemonSet mounts what its flags name, with minimal privileges."""

import re
from pathlib import Path, PurePosixPath

import pytest

import agent.config
from agent.scrape.endpoints import OPEN_PATHS
from evaluator.config import Settings as EvaluatorSettings
from plimsoll import flags
from plimsoll.commandline import Parser

ROOT = Path(__file__).parents[2]
NAME = "plimsoll-agent"
HOST = {"proc": "/proc", "sys": "/sys", "root": "/"}


def daemonset(objects):
    (found,) = [obj for obj in objects if obj["kind"] == "DaemonSet"]
    return found


@pytest.fixture
def pod(built):
    return daemonset(built("daemonset"))["spec"]["template"]["spec"]


@pytest.fixture
def container(pod):
    (container,) = pod["containers"]
    return container


@pytest.fixture
def settings(container):
    """Parse the arguments as the program does; an unknown flag is an error."""
    return agent.config.parse(container["args"], {"NODE_NAME": "node-a"}, hostname="pod")


@pytest.fixture
def mounts(pod, container):
    """Mount path -> (volume, its mount)."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    return {m["mountPath"]: (volumes[m["name"]], m) for m in container["volumeMounts"]}


def on_the_host(mounts, path):
    """The host path of a container path."""
    path = PurePosixPath(path)
    for mount in sorted(mounts, key=len, reverse=True):
        if path.is_relative_to(mount):
            root = PurePosixPath(mounts[mount][0]["hostPath"]["path"])
            return str(root / path.relative_to(mount))
    raise AssertionError(f"{path} is not mounted")


def test_configured_paths_are_those_of_the_host(settings, mounts):
    defaults = agent.config.parse([], {}, hostname="pod")
    for field in ("procfs", "sysfs", "rootfs", "udev"):
        told, usual = getattr(settings.host, field), getattr(defaults.host, field)
        assert on_the_host(mounts, told) == str(usual), field
    database = "rasdaemon_database"
    told = getattr(settings.collectors["rasdaemon"], database)
    assert on_the_host(mounts, told) == str(getattr(defaults.collectors["rasdaemon"], database))


def test_textfile_directories_are_ours_and_that_of_tas(settings, mounts):
    """Ours first: for a duplicate series the first directory wins."""
    directories = settings.collectors["textfile"].textfile_directories
    assert directories == ("/var/lib/node-metrics", "/tmp/node-metrics")
    for directory in directories:
        assert on_the_host(mounts, directory) == directory, "operators know the path of the label"
        volume, mount = mounts[directory]
        assert volume["hostPath"]["type"] == "DirectoryOrCreate", "so neither is ever missing"
        assert mount["readOnly"]
        assert mount["mountPropagation"] == "HostToContainer"


def test_host_directories_are_mounted_read_only(mounts):
    hosts = {path: found for path, found in mounts.items() if "hostPath" in found[0]}
    assert {found[0]["name"] for found in hosts.values()} == {
        *HOST,
        "node-metrics",
        "tas-node-metrics",
        "state",
    }
    for volume, _ in hosts.values():
        if volume["name"] in HOST:
            assert volume["hostPath"] == {"path": HOST[volume["name"]], "type": "Directory"}
    writable = [volume["name"] for volume, mount in mounts.values() if not mount.get("readOnly")]
    assert writable == ["state"]


def test_rules_are_mounted_where_they_are_read(settings, mounts, built):
    (pattern,) = settings.rules.files
    volume, _ = mounts[str(Path(pattern).parent)]
    (rules,) = [obj for obj in built("daemonset") if obj["kind"] == "ConfigMap"]
    assert volume["configMap"]["name"] == rules["metadata"]["name"]
    assert re.fullmatch(r"plimsoll-rules-\w+", rules["metadata"]["name"]), "its content in the name"
    shipped = {path.name for path in (ROOT / "deploy/rules").glob("*.yaml")}
    assert rules["data"].keys() == shipped
    assert all(PurePosixPath(name).match(Path(pattern).name) for name in shipped)


def test_state_outlives_its_pod_in_a_writable_directory(pod, settings, mounts):
    state = PurePosixPath(settings.rules.state_file)
    volume, mount = mounts[str(state.parent)]
    assert volume["hostPath"]["type"] == "DirectoryOrCreate"
    (init,) = pod["initContainers"]
    assert init["volumeMounts"] == [mount]
    assert init["image"] == pod["containers"][0]["image"], "one image to pull"
    group = pod["securityContext"]["fsGroup"]
    assert group == pod["securityContext"]["runAsGroup"]
    program, option, code = init["command"]
    assert (program, option) == ("python", "-c")
    assert f"os.chown('{state.parent}', -1, {group}); os.chmod('{state.parent}', 0o770)" in code
    assert init["securityContext"] == {
        "runAsNonRoot": False,
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_disks_and_resctrl_mounted_later_are_seen(mounts):
    for path in ("/host/root", "/host/sys"):
        assert mounts[path][1]["mountPropagation"] == "HostToContainer"


def test_default_collectors_run(settings):
    assert settings.collectors.keys() == agent.config.parse([], {}, hostname="x").collectors.keys()


def test_agent_runs_unprivileged(pod, container, built):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for namespace in ("hostPID", "hostNetwork", "hostIPC"):
        assert not pod.get(namespace)
    kinds = {obj["kind"] for obj in built("daemonset")}
    own = {"ConfigMap", "DaemonSet", "NetworkPolicy", "PriorityClass", "ServiceAccount"}
    assert kinds == own, "no role"


def test_agent_has_no_token_for_the_api_server(pod, built):
    (account,) = [obj for obj in built("daemonset") if obj["kind"] == "ServiceAccount"]
    assert pod["serviceAccountName"] == account["metadata"]["name"] == NAME
    assert account["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is False


def test_agent_token_is_accepted_by_the_evaluator(pod, settings, mounts, built):
    parser = Parser("plimsoll-evaluator", about="", examples="", usage="")
    (deployment,) = [obj for obj in built("evaluator") if obj["kind"] == "Deployment"]
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    theirs = flags.parse_settings(EvaluatorSettings, parser, argv=args, env={})
    assert theirs.agent_identity == "token"
    folder, name = str(Path(settings.evaluator_token).parent), Path(settings.evaluator_token).name
    volume, _ = mounts[folder]
    ((source,),) = [s.values() for s in volume["projected"]["sources"]]
    assert source["path"] == name
    assert source["audience"] == theirs.agent_audience
    assert f"plimsoll/{pod['serviceAccountName']}" == "/".join(theirs.agent_account.split("/"))


def test_agent_mounts_the_evaluators_ca_and_not_its_key(settings, mounts):
    volume, _ = mounts[str(Path(settings.evaluator_ca).parent)]
    assert [item["key"] for item in volume["secret"]["items"]] == ["ca.crt"]
    assert volume["secret"]["items"][0]["path"] == Path(settings.evaluator_ca).name


def test_node_name_is_from_the_downward_api(container):
    assert container["env"] == [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    ]


def test_agent_listens_where_probes_and_prometheus_connect(container, settings, built):
    (address,) = settings.listen_addresses
    assert container["ports"] == [{"name": "metrics", "containerPort": address.port}]
    assert address.host == ""
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
        assert path in OPEN_PATHS
    (monitor,) = [obj for obj in built("monitoring") if obj["metadata"]["name"] == NAME]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", settings.telemetry_path)


def test_agent_runs_on_every_node_with_priority(pod, built):
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    classes = {o["metadata"]["name"]: o for o in built("daemonset") if o["kind"] == "PriorityClass"}
    assert classes[pod["priorityClassName"]]["value"] > 0


def test_memory_is_limited_and_cpu_is_not(container):
    assert container["resources"]["limits"].keys() == {"memory"}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_agent_as_root_has_no_capability(with_components, pod):
    as_root = daemonset(with_components("daemonset", "agent-root"))["spec"]["template"]["spec"]
    user = {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0}
    assert as_root["securityContext"] == {**pod["securityContext"], **user}
    assert as_root["containers"] == pod["containers"]
    assert as_root["initContainers"] == pod["initContainers"]
