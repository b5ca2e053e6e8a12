"""Log lines of all programs: logfmt or JSON, one line per event, on stderr.

Lines of libraries use the same format. Values are bounded in length (`logs.values`) and escaped by the renderers, so that a
newline in a name cannot forge a second line, and a value of a megabyte does not fill the disk.
"""

import logging
import sys
import threading
from collections.abc import MutableMapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import structlog

from plimsoll import flags, text
from plimsoll.flags import option
from plimsoll.logs import values
from plimsoll.logs.handler import LineHandler


def _level(text: str) -> str:
    """Parse a level, in upper or lower case."""
    return flags.choice("debug", "info", "warn", "error")(text.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Logs. The flags of every program."""

    log_level: str = option(
        "log.level",
        "info",
        "debug, info, warn or error",
        metavar="LEVEL",
        parse=_level,
    )
    log_format: str = option(
        "log.format",
        "logfmt",
        "logfmt or json",
        metavar="FORMAT",
        parse=flags.choice("logfmt", "json"),
    )


def setup(level: str = "info", fmt: str = "logfmt") -> None:
    """Send all log lines of this process to stderr.

    `level`: debug, info, warn or error. `fmt`: logfmt or json.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("msg"),
    ]
    logfmt = structlog.processors.LogfmtRenderer(
        key_order=["ts", "level", "msg"], drop_missing=True
    )
    renderers: list[Any] = (
        [structlog.processors.JSONRenderer(), _undeleted] if fmt == "json" else [logfmt, _printable]
    )
    handler = LineHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _bounded,
                *renderers,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def adopt() -> None:
    """Log what Python would write to stderr: uncaught exceptions, also of threads, and warnings."""
    log = logging.getLogger("python")
    logging.captureWarnings(True)

    def uncaught(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        log.error("uncaught exception", exc_info=(kind, error, trace))

    def never_reported(lost: "threading.ExceptHookArgs | sys.UnraisableHookArgs") -> None:
        error = lost.exc_value or lost.exc_type()
        log.error(
            "exception in a thread or destructor",
            exc_info=(lost.exc_type, error, lost.exc_traceback),
        )

    sys.excepthook, threading.excepthook, sys.unraisablehook = (
        uncaught,
        never_reported,
        never_reported,
    )


def _bounded(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Convert values to text or numbers of bounded length."""
    bounded: dict[str, Any] = {key: values.plain(value) for key, value in event.items()}
    if "msg" in event:
        bounded["msg"] = values.plain(event["msg"], values.LONGEST_MESSAGE)
    if "exception" in event:
        bounded["exception"] = values.trace(str(event["exception"]))
    return bounded


def _printable(_logger: object, _method: str, line: str) -> str:
    """Escape line ends and terminal control characters as JSON does; the logfmt renderer escapes newlines only."""
    return text.printable(line)


def _undeleted(_logger: object, _method: str, line: str) -> str:
    """Escape DEL, the one control character that JSON does not."""
    return line.replace("\x7f", "\\u007f")


def get(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module. Pass values as keywords: `log.info("...", pod="ns/name")`."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger
