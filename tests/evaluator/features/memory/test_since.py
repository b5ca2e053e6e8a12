"""The time of the upgrade after which policies read only public scores of other namespaces: kept in the Lease, the same for all."""

import copy

import pytest

from evaluator.core.kube.transport import KubeError
from evaluator.features.memory.since import SINCE, foreign_scores_since

NOW = 1_790_000_000.0
LATER = NOW + 86_400


class Leases:
    """One Lease, with the resourceVersion's conflicts; `errors` are raised first."""

    def __init__(self, lease=None, errors=()):
        self.lease = lease
        self.errors = [*errors]
        self.before_write = None

    async def read_lease(self, _namespace, _name):
        if self.errors:
            raise KubeError(*self.errors.pop(0))
        return copy.deepcopy(self.lease)

    async def write_lease(self, body):
        if self.before_write:
            self.lease, self.before_write = self.before_write, None
        if self.lease and body["metadata"].get("resourceVersion") != self.version:
            raise KubeError(409, "the object has been modified")
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(int(self.version or 0) + 1)
        return self.lease

    @property
    def version(self):
        return self.lease["metadata"].get("resourceVersion") if self.lease else None


async def since(leases, now=NOW):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    return await foreign_scores_since(leases, "ns", "lease", wall=lambda: now, sleep=sleep)


def held(**annotations):
    meta = {"namespace": "ns", "name": "lease", "resourceVersion": "7", "annotations": annotations}
    return {"metadata": meta, "spec": {"holderIdentity": "old", "leaseTransitions": 3}}


async def test_first_start_of_this_version_sets_the_time_and_later_ones_read_it():
    leases = Leases()
    assert [await since(leases), await since(leases, LATER)] == [NOW, NOW]


async def test_lease_of_an_older_version_that_leads_stays_its_own():
    leases = Leases(held(note="kept"))
    assert await since(leases) == NOW
    assert leases.lease["spec"] == {"holderIdentity": "old", "leaseTransitions": 3}
    assert leases.lease["metadata"]["annotations"]["note"] == "kept"
    assert await since(leases, LATER) == NOW


async def test_two_replicas_that_start_at_once_agree(log_lines):
    lines = log_lines("logfmt")
    leases = Leases(held())
    leases.before_write = held(**{SINCE: "2020-01-01T00:00:00Z"})
    leases.before_write["metadata"]["resourceVersion"] = "8"
    assert await since(leases) == 1_577_836_800.0
    assert "level=warning" not in "".join(lines())


async def test_unreachable_api_server_is_asked_again_and_that_is_said_once(log_lines):
    lines = log_lines("logfmt")
    leases = Leases(held(), errors=[(0, "no response"), (500, "no leader")])
    assert await since(leases) == NOW
    assert "".join(lines()).count("no policy is read") == 1


async def test_without_the_right_to_use_the_lease_no_policy_is_older(log_lines):
    lines = log_lines("logfmt")
    assert await since(Leases(held(), errors=[(403, "forbidden")])) == float("-inf")
    assert "no policy reads scores of other namespaces that are not public" in "".join(lines())


@pytest.mark.parametrize("text", ["", "soon", "2020-01-01"])
async def test_unreadable_time_is_set_anew(text):
    assert await since(Leases(held(**{SINCE: text}))) == NOW


async def test_time_ahead_opens_nothing():
    assert await since(Leases(held(**{SINCE: "9999-01-01T00:00:00Z"}))) == NOW
