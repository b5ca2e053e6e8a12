"""Finds pod uids and container ids in names made by container runtimes and agents."""

import re

_UUID = "[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
# A static pod's uid is a hash without dashes, which is recognized only after the word before it.
_POD = re.compile(rf"(?:^|pod|[^0-9a-f])({_UUID})(?![0-9a-f])|pod([0-9a-f]{{32}})(?![0-9a-f])")
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def pod_uid(name: str) -> str:
    """Return the pod's uid with dashes, which systemd's slices replace; empty if there is none."""
    match = _POD.search(name)
    return (match.group(1) or match.group(2)).replace("_", "-") if match else ""


def container_id(name: str) -> str:
    """Return the container's id; empty if there is none."""
    match = _CONTAINER.search(name)
    return match.group() if match else ""
