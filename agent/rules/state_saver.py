"""Saves samples for long ranges to the state file (`--rules.state-file`): read at start, written every minute and at the end."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from agent.rules import state_file
from agent.rules.state_file import StateFileError
from agent.rules.storage.snapshot import Snapshot
from plimsoll import logs

log = logs.get(__name__)


class StateSaver:
    """One state file. Blocking; any thread may call its methods."""

    def __init__(self, path: Path, procfs: Path, *, limit: int) -> None:
        """`procfs`: for the boot id. `limit`: maximum bytes of samples in the file."""
        self._path = path
        self._procfs = procfs
        self._limit = limit
        self._error = ""
        self._lock = Lock()

    def load(self, now: int) -> Mapping[str, Snapshot]:
        """Return the saved samples by group; on failure log why and return none. `now` as for `state_file.load`."""
        try:
            boot = state_file.boot_id(self._procfs)
        except StateFileError as error:
            log.warning("saved samples for rules are dropped", reason=str(error))
            return {}
        return state_file.load(self._path, boot, now=now, limit=self._limit)

    def save(self, snapshots: Mapping[str, Snapshot]) -> None:
        """Replace the saved samples. Errors are logged once."""
        with self._lock:
            try:
                boot = state_file.boot_id(self._procfs)
                state_file.save(self._path, boot, snapshots, limit=self._limit)
            except StateFileError as error:
                if str(error) != self._error:
                    log.error("samples for rules are not saved", reason=str(error))
                self._error = str(error)
                return
            if self._error:
                log.info("samples for rules are saved again", file=str(self._path))
            self._error = ""
