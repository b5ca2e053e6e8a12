"""Device filters: ignored devices match --...device-exclude, or do not match --...device-include."""

import re


class DeviceFilter:
    """Both expressions, as in node_exporter; an empty one has no effect."""

    def __init__(self, include: str, exclude: str) -> None:
        self._include = re.compile(include) if include else None
        self._exclude = re.compile(exclude) if exclude else None

    def ignores(self, device: str) -> bool:
        """Return whether a device is ignored."""
        if self._exclude is not None and self._exclude.search(device) is not None:
            return True
        return self._include is not None and self._include.search(device) is None
