"""Reasons why part of a text file is not exported: a word for the metric's label, a sentence for the log."""

from collections.abc import Mapping

from collectors.interface.sample import CollectorError
from plimsoll.text import one_line

REASONS: Mapping[str, str] = {
    "age": "the file is older than --collector.textfile.max-age",
    "builtin": "a collector, or the agent itself, exports the same series, or the metric with another TYPE or HELP",
    "changing": "the file changed during every read",
    "directory": "the directory is missing or cannot be read",
    "duplicate": "a series occurs twice in the file",
    "encoding": "the file is not UTF-8, also in HELP",
    "help": "another file has a different HELP for the metric",
    "histogram": "lines of a histogram or summary are missing, misplaced or duplicated",
    "kind": "a directory, FIFO, socket or device",
    "label": "a label starts with __ or occurs twice in a sample",
    "link": "a symbolic link leaves the directory",
    "missing": "a dangling symbolic link, or the file was removed",
    "series": "another file has a series of the same name and labels",
    "samples": "the file, with the files before it, has more samples than --collector.textfile.max-samples",
    "size": "the file is larger than --collector.textfile.max-size, or with the files before it than max-total-size",
    "syntax": "a line is not in the text format: 0x10, 1_000, CRLF, a byte order mark, NUL, an exemplar, ...",
    "timestamp": "a sample has a timestamp, which would be exported as current",
    "truncated": "the file ends within a line: 1 may be the start of 12",
    "type": "another file has a different TYPE for the metric",
    "unreadable": "the file cannot be opened or read",
}


class CollectorConfigError(CollectorError):
    """Something is not exported. `reason` is one of REASONS."""

    def __init__(self, reason: str, text: str) -> None:
        assert reason in REASONS
        super().__init__(one_line(text))
        self.reason = reason
