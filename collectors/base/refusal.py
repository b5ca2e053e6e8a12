"""Reasons why part of a text file is not exported: a word for the metric's label, a sentence for the log."""

from collections.abc import Mapping

from collectors.base.sample import CollectorError
from plimsoll.text import one_line

REASONS: Mapping[str, str] = {
    "age": "the file is older than --collector.textfile.max-age",
    "builtin": "a collector, or the agent itself, exports the same series, or the metric with another TYPE or HELP",
    "changing": "the file changed each time while it was being read",
    "directory": "the directory cannot be read, or is not there",
    "duplicate": "a series is in the file twice",
    "encoding": "the file is not UTF-8, be it in HELP only",
    "help": "another file has a different HELP for the metric",
    "histogram": "the lines of a histogram or summary make none: parts missing, misplaced or twice",
    "kind": "it is a directory, a FIFO, a socket or a device",
    "label": "a label begins with __, or is in one sample twice",
    "link": "a symbolic link leads out of the directory",
    "missing": "a symbolic link leads nowhere, or the file went away",
    "series": "another file has a series of the same name and labels",
    "samples": "the file, or all files up to it, have more samples than --collector.textfile.max-samples",
    "size": "the file is larger than --collector.textfile.max-size, or all files up to it than max-total-size",
    "syntax": "a line is not in the text format: 0x10, 1_000, CRLF, a byte order mark, NUL, an exemplar, ...",
    "timestamp": "a sample has a timestamp, which would be exported as if it were now",
    "truncated": "the file breaks off within a line: 1 may be the beginning of 12",
    "type": "another file has a different TYPE for the metric",
    "unreadable": "the file cannot be opened or read",
}


class CollectorConfigError(CollectorError):
    """Something is not exported. `reason` is one of REASONS."""

    def __init__(self, reason: str, text: str) -> None:
        assert reason in REASONS
        super().__init__(one_line(text))
        self.reason = reason
