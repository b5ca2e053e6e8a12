"""What features require of all pods, and how policies are decoded."""

import json
from types import SimpleNamespace
from weakref import WeakValueDictionary

import msgspec
import pytest

from evaluator.core.kube.watches import AllPods, decode_policy
from evaluator.core.signals import Signals


def test_only_one_feature_adds_to_records_of_pods():
    pods = AllPods(watches=SimpleNamespace(signals=Signals()))
    pods.require(labels=True)
    cache = pods.require(extra=str)
    assert pods.require(labels=True) is cache
    with pytest.raises(ValueError, match="two features"):
        pods.require(extra=repr)


def _taspolicy(spec, **more):
    meta = {"name": "demo", "namespace": "ns", "uid": "u", "generation": 3}
    return msgspec.Raw(json.dumps({"metadata": meta, "spec": spec, **more}).encode())


def test_policy_is_decoded_with_its_status():
    rules = [{"metricname": "m", "operator": "Equals", "target": 1}]
    spec = {"strategies": {"dontschedule": {"rules": rules}}}
    found = decode_policy(_taspolicy(spec, status={"compliance": "Compliant"}))
    assert found.key == ("ns", "demo")
    assert (found.uid, found.generation, found.problems) == ("u", 3, ())
    assert found.metrics == {"m"}
    assert found.status == {"compliance": "Compliant"}


def test_event_that_changes_a_status_alone_parses_no_rules_again():
    spec = {"strategies": {"dontschedule": {"rules": [{"metricname": "m", "operator": "Equals"}]}}}
    known = WeakValueDictionary()
    first = decode_policy(_taspolicy(spec, status={"message": "one"}), known=known)
    second = decode_policy(_taspolicy(spec, status={"message": "two"}), known=known)
    assert second.strategies is first.strategies
    assert second.specified_as(first)
    assert (first.status, second.status) == ({"message": "one"}, {"message": "two"})
    spec["strategies"]["dontschedule"]["rules"][0]["target"] = 2
    edited = decode_policy(_taspolicy(spec), known=known)
    assert not edited.specified_as(second)
    assert [rule.target for rule in edited.rules] == [2]
    del first, second
    assert len(known) == 1


def test_oversized_policy_is_not_decoded_and_reports_so():
    spec = {"strategies": {"labeling": {"rules": [{"labels": ["a=b"] * 50_000}]}}}
    found = decode_policy(_taspolicy(spec))
    assert found.strategies == {}
    assert found.problems[0].startswith("spec: it has 350")
    assert found.problems[0].endswith("more than 262144: the policy is not enforced")
    assert (found.uid, found.generation) == ("u", 3)


def test_oversized_status_is_not_decoded():
    found = decode_policy(_taspolicy({}, status={"message": "x" * 300_000}))
    assert found.status == {}
