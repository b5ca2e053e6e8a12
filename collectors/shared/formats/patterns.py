"""Regular expressions in flags, validated on the command line."""

import re


def regexp(text: str) -> str:
    """Return a regular expression after validating it."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {text!r} ({error})") from error
    return text


class DeviceFilter:
    """Ignored devices match --...device-exclude, or do not match --...device-include, as in node_exporter.

    An empty expression has no effect.
    """

    def __init__(self, include: str, exclude: str) -> None:
        self._include = re.compile(include) if include else None
        self._exclude = re.compile(exclude) if exclude else None

    def ignores(self, device: str) -> bool:
        """Return whether a device is ignored."""
        if self._exclude is not None and self._exclude.search(device) is not None:
            return True
        return self._include is not None and self._include.search(device) is None
