"""The component `closed-egress` allows the connections that the flags name, and no others."""

import pytest

import agent.config

EVALUATOR, AGENT = "plimsoll-evaluator", "plimsoll-agent"
ANYWHERE = None


def egress(objects, program):
    """The rules of a program's policy, as {(port, protocol): peers}."""
    (policy,) = [
        obj["spec"]
        for obj in objects
        if obj["kind"] == "NetworkPolicy" and obj["metadata"]["name"] == f"{program}-egress"
    ]
    assert policy["policyTypes"] == ["Egress"], "ingress belongs to another policy"
    assert policy["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": program}}
    return {
        (port["port"], port.get("protocol", "TCP")): rule.get("to", ANYWHERE)
        for rule in policy["egress"]
        for port in rule["ports"]
    }


def container(objects, program):
    (found,) = [
        obj["spec"]["template"]["spec"]["containers"][0]
        for obj in objects
        if obj["metadata"]["name"] == program and "template" in obj.get("spec", {})
    ]
    return found


def namespace(name):
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


DNS_SERVERS = [namespace("kube-system"), {"ipBlock": {"cidr": "169.254.20.10/32"}}]
DNS = {(53, "UDP"): DNS_SERVERS, (53, "TCP"): DNS_SERVERS}


@pytest.fixture
def closed(with_components):
    return with_components("core", "closed-egress")


def test_agents_reach_dns_and_the_evaluators_port_for_agents(closed):
    rules = egress(closed, AGENT)
    settings = agent.config.parse(
        container(closed, AGENT)["args"], {"NODE_NAME": "a"}, hostname="pod"
    )
    (port,) = [
        port["containerPort"]
        for port in container(closed, EVALUATOR)["ports"]
        if port["name"] == "agents"
    ]
    assert settings.evaluator_address.endswith(f":{port}")
    evaluator = [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": EVALUATOR}}}]
    assert rules == {**DNS, (port, "TCP"): evaluator}


def test_evaluator_reaches_dns_and_the_ports_of_api_servers(closed):
    """Only the port of an API server is known: it is no pod, and its address differs by cluster."""
    assert egress(closed, EVALUATOR) == {**DNS, (443, "TCP"): ANYWHERE, (6443, "TCP"): ANYWHERE}


def test_prometheus_is_reachable_if_it_is_a_source(with_components, closed):
    before = egress(closed, EVALUATOR)
    objects = with_components("core", "closed-egress", "prometheus-egress")
    assert egress(objects, EVALUATOR) == {**before, (9090, "TCP"): [namespace("monitoring")]}
    assert egress(objects, AGENT) == egress(closed, AGENT)


def test_egress_is_open_without_the_component(built):
    policies = [obj["spec"] for obj in built("core") if obj["kind"] == "NetworkPolicy"]
    assert policies
    assert all("Egress" not in policy["policyTypes"] for policy in policies)


def test_ingress_policies_are_unchanged(built, closed):
    def incoming(objects):
        found = [obj for obj in objects if obj["kind"] == "NetworkPolicy"]
        return [obj for obj in found if "Ingress" in obj["spec"]["policyTypes"]]

    assert incoming(closed) == incoming(built("core"))


def test_egress_component_works_with_closed_metrics(with_components):
    objects = with_components("core", "closed-metrics", "closed-egress", "prometheus-egress")
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "NetworkPolicy"]
    assert sorted(names) == [AGENT, f"{AGENT}-egress", EVALUATOR, f"{EVALUATOR}-egress"]
