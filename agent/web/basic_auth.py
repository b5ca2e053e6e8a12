"""Basic authentication with bcrypt, which is slow by design: one check at a time, in a thread, with a cache."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Mapping

from plimsoll.fairlock import FairLock

_MAX_BYTES = 72  # bcrypt ignores further bytes
_REMEMBERED = 100
_SALT = b"$2b$%02d$" + b"." * 22
_WAITING = 31
"""Maximum number of passwords waiting to be checked."""


class BasicAuth:
    """Checks passwords and caches results. Correct ones are cached apart from wrong ones, so that guessing does not evict them."""

    def __init__(self) -> None:
        self._right: dict[bytes, None] = {}
        self._wrong: dict[bytes, None] = {}
        self._checking = FairLock(_WAITING)

    async def fit(self, users: Mapping[str, str], authorization: str) -> bool:
        """Return whether an Authorization header has the name and password of a user. Raises TooManyWaitError."""
        if (given := _basic(authorization)) is None:
            return False
        name, password = given
        hashed = users.get(name.decode("utf-8", "replace"))
        most = max(map(_cost, users.values()))
        key = hashlib.sha256(b"\0".join((name, (hashed or "").encode(), password))).digest()
        if key in self._right:
            return True
        if key in self._wrong:
            return False
        async with self._checking.hold():
            right = await asyncio.to_thread(_check, password, hashed, most)
        _remember(self._right if right else self._wrong, key)
        return right


def _basic(authorization: str) -> tuple[bytes, bytes] | None:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(credentials, validate=True)
    except (binascii.Error, ValueError):
        return None
    name, colon, password = decoded.partition(b":")
    return (name, password) if colon else None


def _cost(hashed: str) -> int:
    """Return the cost of a bcrypt hash: checking a password takes 2**cost rounds."""
    return int(hashed.split("$")[2])


def _check(password: bytes, hashed: str | None, most: int) -> bool:
    """Return whether a password has a hash (None: the user is unknown). Takes 2**most rounds in any case.

    Otherwise the time would tell which users exist. 2**c rounds become 2**most by another 2**c, 2**(c+1), ..., 2**(most-1).
    """
    import bcrypt  # not imported without users

    password = password[:_MAX_BYTES]
    try:
        if hashed is None:
            bcrypt.hashpw(password, _SALT % most)
            return False
        right = bcrypt.checkpw(password, hashed.encode())
        for cost in range(_cost(hashed), most):
            bcrypt.hashpw(password, _SALT % cost)
        return right
    except ValueError:  # a password that bcrypt rejects for any hash
        return False


def _remember(keys: dict[bytes, None], key: bytes) -> None:
    if len(keys) >= _REMEMBERED:
        del keys[next(iter(keys))]
    keys[key] = None
