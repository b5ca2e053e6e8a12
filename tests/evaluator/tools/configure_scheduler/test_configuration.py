"""The generated kube-scheduler configuration file."""

import pytest
import yaml

from evaluator.tools.configure_scheduler import configuration
from evaluator.tools.configure_scheduler.configuration import ConfigurationError, ExtenderEntry

BASE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "/k"},
}


def test_flags_that_a_configuration_overrides_are_carried_over():
    flags = {"kubeconfig": "/k", "profiling": "false", "kube-api-qps": "7.5", "v": "2"}
    made = configuration.from_flags(flags)
    assert made["clientConnection"] == {"kubeconfig": "/k", "qps": 7.5}
    assert made["enableProfiling"] is False


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({}, "neither --config nor --kubeconfig"),
        ({"kubeconfig": "/k", "master": "x"}, "--master"),
        ({"kubeconfig": "/k", "profiling": "maybe"}, "--profiling: not a boolean"),
    ],
)
def test_flags_that_cannot_be_carried_over_are_rejected(flags, says):
    with pytest.raises(ConfigurationError, match=says):
        configuration.from_flags(flags)


def test_shipped_configuration_equals_the_commands_output(deploy):
    """The shipped file and the file that the command writes are equal."""
    extender = ExtenderEntry(
        "https://10.96.0.100:9001/scheduler",
        server_name="plimsoll-evaluator.plimsoll.svc",
        ca="/etc/kubernetes/plimsoll/ca.crt",
        cert="/etc/kubernetes/plimsoll/tls.crt",
        key="/etc/kubernetes/plimsoll/tls.key",
    )
    base = configuration.from_flags({"kubeconfig": "/etc/kubernetes/scheduler.conf"})
    shipped = yaml.safe_load((deploy / "scheduler/configuration.yaml").read_text())
    assert configuration.with_extender(base, extender) == shipped


def test_evaluator_replaces_tas_and_keeps_other_extenders():
    tas = {"urlPrefix": "https://tas", "managedResources": [{"name": "telemetry/scheduling"}]}
    other = {"urlPrefix": "https://other", "managedResources": [{"name": "example.com/gpu"}]}
    profiles = [{"schedulerName": "mine"}]
    base = {**BASE, "extenders": [tas, other], "profiles": profiles}
    made = configuration.with_extender(base, ExtenderEntry("http://evaluator"))
    assert [one["urlPrefix"] for one in made["extenders"]] == ["https://other", "http://evaluator"]
    assert made["profiles"] == profiles
    again = configuration.with_extender(made, ExtenderEntry("http://evaluator"))
    assert again == made


@pytest.mark.parametrize(
    "base",
    [None, [], {"kind": "Pod"}, {**BASE, "apiVersion": "kubescheduler.config.k8s.io/v1beta2"}],
)
def test_invalid_configuration_is_rejected(base):
    with pytest.raises(ConfigurationError):
        configuration.with_extender(base, ExtenderEntry("http://evaluator"))


TAS = {
    "urlPrefix": "https://tas",
    "filterVerb": "scheduler/filter",
    "prioritizeVerb": "scheduler/prioritize",
    "weight": 3,
    "enableHTTPS": True,
    "bindVerb": "bind",
    "httpTimeout": "7s",
    "ignorable": True,
    "managedResources": [{"name": "telemetry/scheduling", "ignoredByScheduler": True}],
}


def test_tuned_fields_of_the_replaced_entry_are_kept():
    base = {**BASE, "extenders": [TAS]}
    (made,) = configuration.with_extender(base, ExtenderEntry("http://evaluator"))["extenders"]
    assert (made["weight"], made["httpTimeout"], made["ignorable"]) == (3, "7s", True)
    flags = ExtenderEntry("http://evaluator", timeout=4.0, ignorable=False, weight=9)
    (made,) = configuration.with_extender(base, flags)["extenders"]
    assert (made["weight"], made["httpTimeout"], made["ignorable"]) == (9, "4s", False)


def test_each_changed_or_kept_field_of_the_replaced_entry_is_named_with_the_reason():
    said = list(
        configuration.changes({**BASE, "extenders": [TAS]}, ExtenderEntry("http://e", weight=9))
    )
    assert [line.partition(":")[0] for line in said] == [
        *("urlPrefix", "filterVerb", "prioritizeVerb", "weight", "enableHTTPS", "bindVerb"),
        *("httpTimeout", "ignorable", "nodeCacheCapable", "preemptVerb"),
    ]
    assert "weight: 3 becomes 9: set by a flag" in said
    assert "bindVerb: bind is removed: the evaluator does not support it" in said
    assert "httpTimeout: 7s is kept" in said
    assert any(line.startswith("ignorable: true is kept: pods are scheduled") for line in said)
    assert any(
        line.startswith("nodeCacheCapable: not set (false by default) becomes true: otherwise")
        for line in said
    )


@pytest.mark.parametrize(
    ("field", "bad", "made"), [("weight", 0, 1), ("httpTimeout", "soon", "2s"), ("weight", None, 1)]
)
def test_invalid_field_of_the_replaced_entry_is_replaced_and_named(field, bad, made):
    base = {**BASE, "extenders": [{**TAS, field: bad}]}
    (entry,) = configuration.with_extender(base, ExtenderEntry("http://e"))["extenders"]
    assert entry[field] == made
    said = configuration.changes(base, ExtenderEntry("http://e"))
    assert any(line.startswith(f"{field}: ") and f"becomes {made}" in line for line in said)


def test_entries_without_a_preempt_verb_are_named():
    scorer = {"urlPrefix": "http://e/scorers/safe", "filterVerb": "filter"}
    ranks = {"urlPrefix": "http://e/scorers/congestion", "prioritizeVerb": "prioritize"}
    other = {"urlPrefix": "http://other", "filterVerb": "filter"}
    base = {**BASE, "extenders": [TAS, scorer, ranks, other]}
    said = list(configuration.without_preempt(base))
    assert [line.partition(" ")[0] for line in said] == [*("https://tas", "http://e/scorers/safe")]
    made = configuration.with_extender(base, ExtenderEntry("http://e"))
    assert len(list(configuration.without_preempt(made))) == 1
    made["extenders"][0]["preemptVerb"] = "preempt"
    assert not list(configuration.without_preempt(made))
