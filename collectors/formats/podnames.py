"""Pod uids and container ids in the names that runtimes and agents give to what they make for a pod."""

import re

_UUID = "[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
# A static pod's uid is a hash without dashes, which means nothing without the word before it.
_POD = re.compile(rf"(?:^|pod|[^0-9a-f])({_UUID})(?![0-9a-f])|pod([0-9a-f]{{32}})(?![0-9a-f])")
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def pod_uid(name: str) -> str:
    """The pod's uid with dashes, which systemd's slices replace; empty where there is none."""
    match = _POD.search(name)
    return (match.group(1) or match.group(2)).replace("_", "-") if match else ""


def container_id(name: str) -> str:
    """The container's id; empty where there is none."""
    match = _CONTAINER.search(name)
    return match.group() if match else ""
