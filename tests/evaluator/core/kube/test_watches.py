"""What features require of all pods."""

import pytest

from evaluator.core.kube.watches import AllPods


def test_only_one_feature_adds_to_records_of_pods():
    pods = AllPods(watches=None)
    pods.require(labels=True)
    cache = pods.require(extra=str)
    assert pods.require(labels=True) is cache
    with pytest.raises(ValueError, match="two features"):
        pods.require(extra=repr)
