"""Flags of the history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evaluator.core.options import FeatureOptions
from evaluator.core.policy.vocabulary import Vocabulary
from plimsoll import flags
from plimsoll.flags import option

_LEAST = 1 << 20


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(FeatureOptions):
    """The history. Times are in seconds, sizes in bytes."""

    history: bool = option(
        "history",
        True,
        "keep in memory what changed, when and why: transitions of nodes, edits of policies, writes, evictions and elections; shown "
        "by the pages and kubectl plimsoll history",
    )
    history_size: int = option(
        "historySize",
        64 << 20,
        "memory for the history; the oldest records are dropped first",
        metavar="SIZE",
        parse=flags.size,
    )
    history_age: float = option(
        "historyAge",
        24 * 3600.0,
        "how long records are kept, within --historySize",
        metavar="DURATION",
        parse=flags.positive_duration,
    )

    history_file: str = option(
        "historyFile",
        "",
        "also append records to this file, as JSON lines; by default to none",
        metavar="FILE",
    )
    history_file_size: int = option(
        "historyFileSize",
        64 << 20,
        "size at which the file of --historyFile is rotated",
        metavar="SIZE",
        parse=flags.size,
    )
    history_files: int = option(
        "historyFiles",
        4,
        "rotated files that are kept, named .1, .2 and so on",
        metavar="N",
        parse=flags.count,
    )

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterable[str]:
        """Yield errors in these flags together, each as a sentence."""
        if self.history_size < _LEAST:
            yield "--historySize must be 1MiB or more; --no-history keeps nothing"
        if self.history_file and not self.history:
            yield "--historyFile needs the history: leave out --no-history"
