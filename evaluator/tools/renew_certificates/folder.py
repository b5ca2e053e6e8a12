"""The folder of new certificates: made once and complete, checked by each run."""

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from evaluator.core.tls import load_pair
from evaluator.tools.renew_certificates import openssl
from evaluator.tools.renew_certificates.openssl import Names, OpensslError
from evaluator.tools.renew_certificates.steps import Made, RefusedError

USAGES = {"extender": "serverAuth", "agents": "serverAuth", "scheduler": "clientAuth"}
"""extendedKeyUsage of each certificate by the name of its files."""
_CERTS = frozenset({"ca.crt", *(f"{name}.crt" for name in USAGES)})
_KEYS = frozenset(f"{name}.key" for name in USAGES)


def is_new(folder: Path) -> bool:
    """Return whether there is nothing. Raises OSError."""
    return not folder.exists() or not any(folder.iterdir())


def make(folder: Path, names: Mapping[str, Names]) -> None:
    """Make all files, or none: the folder appears when it is complete. Raises OpensslError, OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        made = Path(beside, "made")
        made.mkdir(0o700)
        openssl.issue(made, {name: (usage, names[name]) for name, usage in USAGES.items()})
        made.replace(folder)


def load(folder: Path, names: Mapping[str, Names]) -> Made:
    """Return the files, if `make` made them for these names and they have not expired. Raises OSError, RefusedError."""
    found = {path.name for path in folder.iterdir()}
    if wrong := (found - _CERTS - _KEYS) or (_CERTS - found):
        raise RefusedError(
            f"{folder} is not of this command: see {', '.join(sorted(wrong))}; name an empty folder"
        )
    files = {name: (folder / name).read_text(errors="replace") for name in found}
    for name, expected in names.items():
        cert, key = f"{name}.crt", f"{name}.key"
        try:
            openssl.check(files[cert], files["ca.crt"], expired=False)
            if key in files:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                load_pair(context, str(folder / cert), str(folder / key))
            if (issued := openssl.names_of(files[cert])) != expected:
                raise RefusedError(f"{folder / cert} is for {issued}, not {expected}")
        except (OpensslError, ssl.SSLError) as error:
            raise RefusedError(
                f"{folder / cert} cannot be used: {error}; name an empty folder"
            ) from error
    certs = {name: files[f"{name}.crt"] for name in USAGES}
    keys = {name: files[f"{name}.key"] for name in USAGES if f"{name}.key" in files}
    ca, *more = openssl.bundled(files["ca.crt"])
    if more:
        raise RefusedError(f"{folder / 'ca.crt'} has several CAs; name an empty folder")
    return Made(ca, certs, keys)


def delete_keys(folder: Path) -> None:
    """Delete the keys, which the secrets have now. Raises OSError."""
    for name in _KEYS:
        (folder / name).unlink(missing_ok=True)
