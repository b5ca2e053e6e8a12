"""The state file of problems: positions in logs, counts and conditions, valid within one boot."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plimsoll import logs

log = logs.get(__name__)

_VERSION = 1
_LARGEST = 1 << 20


def load(path: Path, boot_id: str) -> Mapping[str, Any]:
    """Return the state; empty if there is none of this boot, or if it is damaged."""
    try:
        with path.open("rb") as file:
            state = json.loads(file.read(_LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        log.warning(
            "problems of before the restart are discarded", file=str(path), reason=str(error)
        )
        return {}
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        log.warning("problems of before the restart are discarded", file=str(path), reason="other version")  # fmt: skip
        return {}
    return state if state.get("boot_id") == boot_id else {}


def save(path: Path, boot_id: str, state: Mapping[str, Any]) -> None:
    """Write the state. A failure is logged: the next save tries again."""
    text = json.dumps({"version": _VERSION, "boot_id": boot_id, **state})
    new = path.with_name(f"{path.name}.new")
    try:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()  # it may be a symbolic link
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w") as out:
            out.write(text)
        new.replace(path)
    except OSError as error:
        log.warning("problems are not saved", file=str(path), reason=error.strerror)
