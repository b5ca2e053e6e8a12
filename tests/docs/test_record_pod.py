"""The pod of examples/record fits the evaluator's deployment: agents find it, kube-scheduler does not, and its flags are valid."""

from pathlib import Path

import yaml

from lab.record import Options
from plimsoll import flags
from plimsoll.commandline import Parser

ROOT = Path(__file__).parents[2]


def load(path):
    return [*yaml.safe_load_all((ROOT / path).read_text())]


def test_the_pod_fits_the_deployment():
    (pod,) = load("examples/record/pod.yaml")
    (deployment,) = load("deploy/evaluator/deployment.yaml")
    expected, spec = deployment["spec"]["template"]["spec"], pod["spec"]
    for name in ("serviceAccountName", "securityContext", "enableServiceLinks"):
        assert spec[name] == expected[name]
    (container,), (other,) = spec["containers"], expected["containers"]
    assert container["securityContext"] == other["securityContext"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    services = {
        one["metadata"]["name"]: one["spec"] for one in load("deploy/evaluator/service.yaml")
    }
    assert services["plimsoll-evaluator-agents"]["selector"] == pod["metadata"]["labels"]
    found = {
        name: [port["targetPort"] for port in one["ports"] if port["targetPort"] in ports]
        for name, one in services.items()
    }
    assert found == {"plimsoll-evaluator": [], "plimsoll-evaluator-agents": ["agents"]}
    assert spec["readinessGates"], "else it counts as a replica for the PodDisruptionBudget"
    assert services["plimsoll-evaluator-agents"]["publishNotReadyAddresses"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes["agents-tls"] in expected["volumes"]


def test_its_flags_are_valid():
    (pod,) = load("examples/record/pod.yaml")
    command, *argv = pod["spec"]["containers"][0]["args"]
    options = flags.parse_settings(Options, Parser("record", about=""), argv=argv, env={})
    assert command == "record"
    assert options.mistakes() == []
    assert options.agent_port == pod["spec"]["containers"][0]["ports"][0]["containerPort"]
    size = pod["spec"]["volumes"][0]["emptyDir"]["sizeLimit"]
    assert options.max_size < int(size.removesuffix("Gi")) << 30
