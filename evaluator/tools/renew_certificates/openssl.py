"""Certificates by the command `openssl` (OpenSSL 3): names, checks, and a new CA whose key never leaves memory."""

import re
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

DAYS = 365
"""Validity of the CA and its certificates."""
_TIMEOUT = 60
"""Seconds of one call."""
_CURVE = ("-pkeyopt", "ec_paramgen_curve:P-256")
_CA = "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n"
_LEAF = (
    "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
    "authorityKeyIdentifier=keyid\n"
)
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_NAMES = re.compile(r"Subject Alternative Name:.*\n\s+(.+)")


class OpensslError(Exception):
    """openssl is absent or failed; the text has its first line of output, which names no key."""


class Names(NamedTuple):
    """What a certificate was issued for: its subject as `/CN=...`, its alternative names as `DNS:...`, empty for none."""

    subject: str
    alternative: str


def bundled(pem: str) -> list[str]:
    """Return the certificates of a bundle, each in one spelling, so that they can be compared. Raises ValueError."""
    ders = [ssl.PEM_cert_to_DER_cert(found) for found in _PEM.findall(pem)]
    return [ssl.DER_cert_to_PEM_cert(der) for der in ders]


def names_of(cert: str) -> Names:
    """Return the names of the first certificate in PEM. Raises OpensslError."""
    arguments = ("-noout", "-subject", "-nameopt", "compat", "-ext", "subjectAltName")
    text = _run("x509", *arguments, given=cert)
    found = _NAMES.search(text)
    subject = text.partition("\n")[0].removeprefix("subject=")
    return Names(subject, found[1].replace("IP Address:", "IP:") if found else "")


def check(cert: str, ca: str, *, expired: bool) -> None:
    """Check that a CA of the bundle `ca` signed a certificate. `expired`: it may have expired. Raises OpensslError."""
    with tempfile.TemporaryDirectory() as made:
        authority, leaf = Path(made, "ca.crt"), Path(made, "tls.crt")
        authority.write_text(ca)
        leaf.write_text(cert)
        alone = ("-no-CApath", "-no-CAstore", "-CAfile", str(authority))
        time_check = ("-no_check_time",) if expired else ()
        _run("verify", *time_check, *alone, "-untrusted", str(leaf), str(leaf))


def issue(folder: Path, leaves: Mapping[str, tuple[str, Names]]) -> None:
    """Write ca.crt, and a .crt and .key for each of `leaves`: its extendedKeyUsage and names. Raises OpensslError.

    Only the owner may read the files. The CA has a new name: no verifier takes it for the old one.
    """
    ca, key = folder / "ca.crt", _run("genpkey", "-algorithm", "EC", *_CURVE)
    common_name = time.strftime("/CN=plimsoll-ca-%Y%m%d%H%M%S", time.gmtime())
    _certificate(folder, common_name, _CA, "-key", "/dev/stdin", "-out", str(ca), given=key)
    for name, (usage, (subject, alternative)) in leaves.items():
        made = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"))
        signer = ("-CA", str(ca), "-CAkey", "/dev/stdin", "-newkey", "ec", *_CURVE, "-noenc")
        extensions = f"{_LEAF}extendedKeyUsage={usage}\n"
        extensions += f"subjectAltName={alternative}\n" if alternative else ""
        _certificate(folder, subject, extensions, *signer, *made, given=key)


def _certificate(folder: Path, subject: str, extensions: str, *arguments: str, given: str) -> None:
    configuration = folder / "openssl.cnf"
    configuration.write_text(
        "[req]\ndistinguished_name=name\nprompt=no\n[name]\nCN=replaced by -subj\n"
        f"[extensions]\nsubjectKeyIdentifier=hash\n{extensions}"
    )
    chosen = ("-config", str(configuration), "-extensions", "extensions", "-subj", subject)
    _run("req", "-x509", "-days", str(DAYS), *chosen, *arguments, given=given)
    configuration.unlink()


def _run(*arguments: str, given: str = "") -> str:
    """Return what openssl prints. Raises OpensslError."""
    if (program := shutil.which("openssl")) is None:
        raise OpensslError("openssl is not on PATH")
    command = [program, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 (openssl, without a shell)
            command,
            input=given,
            check=False,
            capture_output=True,
            text=True,
            umask=0o077,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise OpensslError(f"openssl {arguments[0]}: no result after {_TIMEOUT} s") from None
    if done.returncode:
        raise OpensslError(f"openssl {arguments[0]}: {_reason(done.stderr)}")
    return done.stdout


def _reason(stderr: str) -> str:
    """Return the line that says why, of what openssl printed: the path that `verify` prints first is of no use."""
    lines = [line for line in stderr.splitlines() if line.strip("-.+* ")]
    return next((line for line in lines if line.startswith("error ")), lines[0] if lines else "")
