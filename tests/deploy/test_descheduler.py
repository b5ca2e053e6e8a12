"""The descheduler's policies in both API versions evict what Telemetry Aware Scheduling's policy evicts."""

import pytest
import yaml

STRATEGY = "RemovePodsViolatingNodeAffinity"
BASES = {"descheduler": "descheduler/v1alpha2", "descheduler/v1alpha1": "descheduler/v1alpha1"}


@pytest.fixture
def policy(built):
    """The policy in the ConfigMap of a base."""

    def read(base):
        (found,) = built(base)
        return yaml.safe_load(found["data"]["policy.yaml"])

    return read


def test_each_base_has_its_version(policy):
    assert {base: policy(base)["apiVersion"] for base in BASES} == BASES


def test_pods_with_local_storage_are_evicted_in_v1alpha2(policy):
    (profile,) = policy("descheduler")["profiles"]
    plugins = {one["name"]: one["args"] for one in profile["pluginConfig"]}
    assert plugins["DefaultEvictor"] == {"evictLocalStoragePods": True}
    assert profile["plugins"] == {"deschedule": {"enabled": [STRATEGY]}}


def test_pods_with_local_storage_are_evicted_in_v1alpha1(policy):
    """In v1alpha1 it is a field of the policy, not of an evictor."""
    assert policy("descheduler/v1alpha1")["evictLocalStoragePods"] is True


def test_both_versions_move_the_same_pods(policy):
    new, old = policy("descheduler"), policy("descheduler/v1alpha1")
    (profile,) = new["profiles"]
    plugins = {one["name"]: one["args"] for one in profile["pluginConfig"]}
    assert plugins[STRATEGY] == old["strategies"][STRATEGY]["params"]
    assert new["maxNoOfPodsToEvictPerNode"] == old["maxNoOfPodsToEvictPerNode"]
