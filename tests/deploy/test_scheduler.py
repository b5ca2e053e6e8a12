"""The shipped kube-scheduler configurations are valid and refer to existing services and files."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
CONFIGURATIONS = sorted(path.name for path in (DEPLOY / "scheduler").glob("*.yaml"))


def extenders(name):
    return yaml.safe_load((DEPLOY / "scheduler" / name).read_text())["extenders"]


@pytest.fixture(params=CONFIGURATIONS)
def listed(request):
    """The extenders of each configuration in turn."""
    return extenders(request.param)


def test_policies_have_the_same_extender_entry_in_all_files():
    (alone,) = extenders("configuration.yaml")
    for name in CONFIGURATIONS:
        assert extenders(name)[0] == alone


def test_both_sides_of_every_connection_are_verified(listed):
    for extender in listed:
        assert extender["enableHTTPS"] is True
        assert extender["tlsConfig"] == listed[0]["tlsConfig"]
        assert "insecure" not in extender["tlsConfig"]


def test_every_connection_targets_the_service(built, listed):
    services = [obj for obj in built("evaluator") if obj["kind"] == "Service"]
    (service,) = [one for one in services if one["metadata"]["name"] == "plimsoll-evaluator"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    meta = service["metadata"]
    for extender in listed:
        assert urlsplit(extender["urlPrefix"]).port == ports["extender"]
        assert extender["tlsConfig"]["serverName"] == f"{meta['name']}.{meta['namespace']}.svc"


def test_only_node_names_are_sent(listed):
    assert all(extender["nodeCacheCapable"] is True for extender in listed)


def test_no_resource_is_managed_by_two_extenders(listed):
    """kube-scheduler does not start otherwise."""
    managed = [one["name"] for extender in listed for one in extender.get("managedResources", ())]
    assert len(managed) == len(set(managed))


def test_extender_of_every_pod_is_ignorable(listed):
    """Otherwise the evaluator's own pods would wait for the evaluator."""
    for extender in listed:
        assert extender["ignorable"] is not bool(extender.get("managedResources"))


def test_each_extender_has_a_verb_and_a_weight(listed):
    for extender in listed:
        assert extender["weight"] > 0
        assert extender["prioritizeVerb"] == "prioritize"
        assert extender.get("filterVerb", "filter") == "filter"
        assert extender.get("preemptVerb") == ("preempt" if "filterVerb" in extender else None)


def test_each_extender_has_its_own_path(listed):
    """kube-scheduler identifies extenders by URL."""
    paths = [urlsplit(extender["urlPrefix"]).path for extender in listed]
    assert len(set(paths)) == len(paths)
    assert {path.rpartition("/")[0] for path in paths} <= {"", "/scorers"}
