"""`plimsoll-agent kernel-log`: hands the kernel's log over to an agent without privileges, through a Unix socket."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from plimsoll import flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import count, option
from plimsoll.kernellog import readers
from plimsoll.kernellog.handover import KernelLogServer
from plimsoll.kernellog.readers import KernelLogError
from plimsoll.logs import LogOptions
from plimsoll.process.signals import StopSignals

PROGRAM = "plimsoll-agent kernel-log"
_ABOUT = """
Reads the kernel's log and hands it over to an agent, through a Unix socket. It needs CAP_SYSLOG (or the sysctl
kernel.dmesg_restrict=0) and nothing else: /dev/kmsg is read where it can be opened, else syslog(2).
"""
_EXAMPLES = """
examples:
  plimsoll-agent kernel-log --socket=/run/plimsoll/log.sock --allow-uid=61011
  plimsoll-agent --problems.kernel-log=unix:/run/plimsoll/log.sock   # as 61011
"""

log = logs.get(__name__)


def _uid(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise ValueError(f"not a uid: {text[:40]!r}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLogOptions(LogOptions):
    """The flags of this command."""

    socket: Path = option(
        "socket",
        Path("/run/plimsoll/kernel-log.sock"),
        "the Unix socket to listen on; its directory must be writable",
        metavar="FILE",
        parse=Path,
    )
    uids: tuple[int, ...] = option(
        "allow-uid",
        (),
        "uid of a user that may connect, beside this process's own (repeatable)",
        metavar="UID",
        parse=_uid,
    )
    source: str = option(
        "source",
        "",
        "device or file to read; by default /dev/kmsg, or syslog(2) where it cannot be opened",
        metavar="FILE",
    )
    rate: int = option(
        "max-records-per-second",
        10_000,
        "records handed over per second; faster ones stay in the kernel's buffer, and those lost there are counted",
        metavar="NUMBER",
        parse=count,
    )
    procfs: Path = option(
        "path.procfs", Path("/proc"), "the host's procfs", metavar="DIR", parse=Path
    )


def main(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status."""
    parser = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES, usage=f"{PROGRAM} [flags]")
    options = flags.parse_settings(KernelLogOptions, parser, argv=arguments, env=env)
    logs.setup(options.log_level, options.log_format)
    source = Path(options.source) if options.source else None
    try:
        boot_id = readers.boot_id(options.procfs)
        with contextlib.closing(readers.open_reader(source, None)) as reader:
            kind = type(reader).__name__
        server = KernelLogServer(
            options.socket,
            partial(readers.open_reader, source),
            boot_id=boot_id,
            uids=options.uids,
            records_per_second=options.rate,
        )
    except (KernelLogError, OSError) as error:
        log.error("cannot start", reason=str(error))
        return 1
    stop = StopSignals()
    log.info("listening", socket=str(options.socket), reader=kind)
    threading.Thread(target=server.run, daemon=True).start()
    stop.wait()
    server.close()
    options.socket.unlink(missing_ok=True)
    return 0
