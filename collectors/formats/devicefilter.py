"""Which devices a collector leaves out: those that --...device-exclude matches, or that --...device-include does not."""

import re


class DeviceFilter:
    """Both expressions, as node_exporter has them; an empty one says nothing."""

    def __init__(self, include: str, exclude: str) -> None:
        self._include = re.compile(include) if include else None
        self._exclude = re.compile(exclude) if exclude else None

    def ignores(self, device: str) -> bool:
        """Whether a device is left out."""
        if self._exclude is not None and self._exclude.search(device) is not None:
            return True
        return self._include is not None and self._include.search(device) is None
