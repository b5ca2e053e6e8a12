"""Keeps what long ranges need in the state file (`--rules.state-file`): read once, written each minute and at the end."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from agent.rules import state_file
from agent.rules.state_file import StateFileError
from agent.rules.storage.snapshot import Snapshot
from plimsoll import logs

log = logs.get(__name__)


class StateKeeper:
    """One file. Blocking; any thread may call any method."""

    def __init__(self, path: Path, procfs: Path, *, limit: int) -> None:
        """`procfs`: where the machine says which boot this is. `limit`: bytes of samples that the file may hold."""
        self._path = path
        self._procfs = procfs
        self._limit = limit
        self._error = ""
        self._lock = Lock()

    def load(self, now: int) -> Mapping[str, Snapshot]:
        """What was saved, by group; nothing where that is of no use, and the log says why. `now` as for `statefile`."""
        try:
            boot = state_file.boot_id(self._procfs)
        except StateFileError as error:
            log.warning("saved samples for rules cannot be told from old ones", reason=str(error))
            return {}
        return state_file.load(self._path, boot, now=now, limit=self._limit)

    def save(self, snapshots: Mapping[str, Snapshot]) -> None:
        """Put these in place of what was saved. What goes wrong is in the log, once."""
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
