"""Flags that the commands `record` of the agent and of the evaluator share."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll import durations
from plimsoll.flags import option
from plimsoll.text import shown

_SHORTEST = 1.0
"""Seconds between two samples."""
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


def metric_names(text: str) -> frozenset[str]:
    """Parse names of metrics, separated by commas. Raises ValueError."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    for name in sorted(names):
        if _METRIC.fullmatch(name) is None:
            raise ValueError(f"not the name of a metric: {shown(name)}")
    return names


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """Where, how long and how often to record. Times are in seconds."""

    folder: str = option("dir", "", "folder of the files", metavar="DIR")
    duration: float = option(
        "for",
        0.0,
        "how long to record; 0: until a signal",
        metavar="DURATION",
        parse=durations.duration,
    )
    every: float = option(
        "every", 15.0, "time between two samples", metavar="DURATION", parse=durations.duration
    )

    def recording_mistakes(self) -> Iterator[str]:
        """Yield mistakes in these flags, each as a sentence."""
        if not self.folder:
            yield "--dir is missing: name a folder for the files"
        if self.every < _SHORTEST:
            yield f"--every must be at least {durations.format_duration(_SHORTEST)}"
