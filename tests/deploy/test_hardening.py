"""Privileges of the pods and access to their ports are minimal and declared for all of them."""

import re
from pathlib import Path

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
USER_OF_STAGE = re.compile(r"^FROM scratch AS (\w+)\n(?:(?!FROM ).*\n)*?USER (\S+)$", re.MULTILINE)
POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SHARED = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
EVALUATOR, AGENT = "plimsoll-evaluator", "plimsoll-agent"
ROOTS = {(AGENT, "state-directory")}
"""Containers that run as root without capabilities: they need files of root."""
WRITABLE = {(AGENT, "/var/lib/plimsoll")}
UNCOMMON_USERS = range(60_706, 61_184)
"""Uids assigned to no users (to 60000), not by systemd (60001 to 60705, 61184 to 65519) and in no usual image (65532)."""


def templates(objects):
    """Pod templates by the name of their workload."""
    return {
        obj["metadata"]["name"]: obj["spec"]["template"]["spec"]
        for obj in objects
        if "template" in obj.get("spec", {})
    }


def test_no_container_can_escalate_privileges(built, folder):
    """The controls of Pod Security's profile `restricted`, except for the agent's host mounts."""
    for name, pod in templates(built(folder)).items():
        assert not [field for field in SHARED if pod.get(field)], name
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            effective = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
            nobody = (name, container["name"]) not in ROOTS
            assert {**POD, **CONTAINER, "runAsNonRoot": nobody}.items() <= effective.items(), name
            assert (effective.get("runAsUser") != 0) == nobody, name
            assert not effective.get("privileged"), name
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name
            assert not any("hostPort" in port for port in container.get("ports", [])), name


def test_each_program_runs_as_a_user_of_its_own(built):
    """The agent mounts the host's /proc: processes of one uid can read each other's environment, files and memory."""
    users = {}
    for name, pod in templates(built("core")).items():
        context = pod["securityContext"]
        (users[name],) = {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")}
        assert "supplementalGroups" not in context
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own.keys().isdisjoint({"runAsUser", "runAsGroup"})
    assert users.keys() == {AGENT, EVALUATOR}
    assert len(set(users.values())) == 2
    assert not [user for user in users.values() if user not in UNCOMMON_USERS]
    images = dict(USER_OF_STAGE.findall(DOCKERFILE))
    assert images.keys() == {"agent", "evaluator", "tools"}
    assert len(set(images.values())) == 3
    for name, user in users.items():
        assert images[name.removeprefix("plimsoll-")] == f"{user}:{user}"
    security = (ROOT / "SECURITY.md").read_text()
    assert all(str(user) in security for user in users.values())


def test_containers_are_read_only_except_agent_state(built):
    for name, pod in templates(built("core")).items():
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
            written = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
            assert {(name, path) for path in written} <= WRITABLE


def test_only_agents_mount_host_paths(built):
    mounting = {
        name
        for name, pod in templates(built(".")).items()
        if any("hostPath" in volume for volume in pod.get("volumes", []))
    }
    assert mounting == {AGENT}


def test_only_the_evaluator_has_a_token_for_the_api_server(built):
    """ServiceAccounts do not mount a token by default either."""
    objects = built(".")
    accounts = [obj for obj in objects if obj["kind"] == "ServiceAccount"]
    assert {obj["metadata"]["name"] for obj in accounts} == {EVALUATOR, AGENT}
    assert all(obj["automountServiceAccountToken"] is False for obj in accounts)
    asking = {n: pod["automountServiceAccountToken"] for n, pod in templates(objects).items()}
    assert asking == {EVALUATOR: True, AGENT: False}


def test_no_role_is_shared_or_aggregated(built, with_components):
    """Writing policies means labelling nodes: the cluster roles `admin` and `edit` do not include it."""
    for obj in [*built("."), *with_components("core", "evict", "custom-metrics", "guard")]:
        if obj["kind"] in {"ClusterRole", "Role"}:
            labels = obj["metadata"].get("labels", {})
            assert not [key for key in labels if key.startswith("rbac.authorization.k8s.io/")]
            assert "aggregationRule" not in obj
        if obj["kind"] in {"ClusterRoleBinding", "RoleBinding"}:
            assert [(s["kind"], s["name"], s["namespace"]) for s in obj["subjects"]] == [
                ("ServiceAccount", EVALUATOR, "plimsoll")
            ]


@pytest.fixture
def settings(built):
    """The evaluator's settings from its arguments."""
    (container,) = templates(built("core"))[EVALUATOR]["containers"]
    parser = Parser(EVALUATOR, about="", examples="", usage="")
    return flags.parse_settings(Settings, parser, argv=container["args"], env={})


def test_only_the_schedulers_certificate_opens_the_extenders_port(settings, built):
    """By name, not by CA alone: the CA also signs for the evaluator."""
    issued = {
        obj["metadata"]["name"]: obj["spec"]
        for obj in built("certificates")
        if obj["kind"] == "Certificate"
    }
    scheduler = issued["plimsoll-scheduler-client"]
    assert settings.allowed_clients == {scheduler["commonName"]}
    others = [spec for name, spec in issued.items() if spec is not scheduler]
    names = {name for spec in others for name in (spec["commonName"], *spec.get("dnsNames", []))}
    assert not settings.allowed_clients & names


def policies(objects):
    return {
        obj["metadata"]["name"]: obj["spec"] for obj in objects if obj["kind"] == "NetworkPolicy"
    }


def admitted(policy):
    """Port -> allowed peers; None for all."""
    return {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}


def selected(objects, policy):
    """The ports, by name, of the pods that a policy selects."""
    wanted = policy["podSelector"]["matchLabels"].items()
    return {
        port["name"]
        for obj in objects
        if "template" in obj.get("spec", {})
        and wanted <= obj["spec"]["template"]["metadata"]["labels"].items()
        for container in obj["spec"]["template"]["spec"]["containers"]
        for port in container["ports"]
    }


def test_every_evaluator_port_has_a_network_policy(built):
    """Kubelet and port-forward come from the node and are not restricted."""
    objects = built("core")
    policy = policies(objects)[EVALUATOR]
    assert policy["policyTypes"] == ["Ingress"]
    assert admitted(policy).keys() == selected(objects, policy) == {"extender", "agents", "ops"}
    assert admitted(policy)["extender"] is None, "kube-scheduler is on the host's network"


def test_only_agents_reach_the_agents_port(built):
    objects = built("core")
    ((who,),) = [admitted(policies(objects)[EVALUATOR])["agents"]]
    labels = {
        obj["metadata"]["name"]: obj["spec"]["template"]["metadata"]["labels"]
        for obj in objects
        if "template" in obj.get("spec", {})
    }
    wanted = who["podSelector"]["matchLabels"].items()
    assert [name for name, own in labels.items() if wanted <= own.items()] == [AGENT]
    assert "namespaceSelector" not in who, "pods of another namespace may have the agents' labels"


NAME = "kubernetes.io/metadata.name"


def namespaces(peer):
    """The namespaces of a peer; None for all."""
    selector = peer["namespaceSelector"]
    if "matchLabels" in selector:
        return [selector["matchLabels"][NAME]]
    (expression,) = selector["matchExpressions"]
    return expression.get("values")


def test_metrics_can_be_limited_to_prometheus(with_components):
    objects = with_components("core", "closed-metrics")
    found = policies(objects)
    assert admitted(found[EVALUATOR])["extender"] is None
    (port, peers), *others = admitted(found[AGENT]).items()
    assert (port, others) == ("metrics", [])
    for peer in (*peers, *admitted(found[EVALUATOR])["ops"]):
        assert namespaces(peer) == ["monitoring"]
    assert selected(objects, found[AGENT]) == {"metrics"}


def test_explain_can_be_disabled_in_the_manifests_too():
    parser = Parser(EVALUATOR, about="", examples="", usage="")
    off = flags.parse_settings(Settings, parser, argv=["--explain=false"], env={})
    assert not off.explain
    assert Settings().explain
