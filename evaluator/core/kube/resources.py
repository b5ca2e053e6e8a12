"""The kinds of objects that the evaluator lists and watches."""

from dataclasses import dataclass

_PAGE = 250
"""Objects per page: 3 MB at 12 KB per node, split in about a millisecond."""
_POLICIES_PAGE = 20
"""Policies per page. An object may have 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class APIResource:
    """A kind of object to list and watch; cluster-wide unless its path has a namespace.

    `unserved`: what to do if the API server does not serve it.
    """

    name: str
    path: str
    label_selector: str = ""
    field_selector: str = ""
    unserved: str = ""
    page: int = _PAGE
    """Objects per page of a list."""

    @property
    def selection(self) -> dict[str, str]:
        """The selectors as query parameters."""
        return {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}


NODES = APIResource("nodes", "/api/v1/nodes")
POLICIES = APIResource(
    "taspolicies",
    "/apis/telemetry.intel.com/v1alpha1/taspolicies",
    unserved="TASPolicy CRD is not installed; run `kubectl apply -k deploy/crd`",
    page=_POLICIES_PAGE,
)
LINKED_PODS = APIResource("pods", "/api/v1/pods", label_selector="telemetry-policy")
ALL_PODS = APIResource("all pods", "/api/v1/pods")
