"""Regular expressions in flags, validated on the command line. They are Go's, as in node_exporter."""

from plimsoll import re2


def regexp(text: str) -> str:
    """Return a regular expression after validating it. Raises ValueError."""
    re2.compiled(text)
    return text


class DeviceFilter:
    """Ignored devices match --...device-exclude, or do not match --...device-include, as in node_exporter.

    An empty expression has no effect.
    """

    def __init__(self, include: str, exclude: str) -> None:
        self._include = re2.compiled(include) if include else None
        self._exclude = re2.compiled(exclude) if exclude else None

    def ignores(self, device: str) -> bool:
        """Return whether a device is ignored."""
        if self._exclude is not None and self._exclude.search(device) is not None:
            return True
        return self._include is not None and self._include.search(device) is None
