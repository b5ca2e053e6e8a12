"""The next step of a renewal, derived from what the API server and the folder have, and what it changes.

No step breaks a handshake: both sides trust both CAs before a certificate is replaced, and until all are.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from evaluator.tools.renew_certificates import openssl

_CERT_MANAGER = "cert-manager.io/certificate-name"


class RefusedError(Exception):
    """Nothing was changed; the text says why, and what to do."""


class Step(Enum):
    """What one run does: as done, as planned, and what must be true before it."""

    TRUST = ("added the new CA", "would add the new CA", "")
    REPLACE = (
        "replaced tls.crt and tls.key",
        "would replace tls.crt and tls.key",
        "each control plane node has ca.crt with both CAs, its kube-scheduler was restarted, and the last run was two "
        "minutes ago or more, so that all pods have their files",
    )
    DISTRUST = (
        "removed the old CA",
        "would remove the old CA",
        "each control plane node has the new tls.crt and tls.key, its kube-scheduler was restarted, and the last run was "
        "two minutes ago or more, so that all pods have their files",
    )

    @property
    def done(self) -> str:
        """The step in the past."""
        return self.value[0]

    @property
    def planned(self) -> str:
        """The step with --dry-run."""
        return self.value[1]

    @property
    def required(self) -> str:
        """What must be true before the step; empty for nothing."""
        return self.value[2]


@dataclass(frozen=True, slots=True)
class Made:
    """The files in the folder: the new CA, and certificates and keys by name. The last run deletes the keys."""

    ca: str
    certs: Mapping[str, str]
    keys: Mapping[str, str]


class Trusting:
    """An object of the API server that has bundles of CAs in base64; `bundles`: where they are."""

    def __init__(
        self, path: str, body: Mapping[str, Any], bundles: Sequence[tuple[dict[str, str], str]]
    ) -> None:
        """Raises RefusedError."""
        self.path = path
        self.body = body
        self.title = f"{body['kind']} {body['metadata']['name']}"
        self._bundles = bundles
        self.trusted = [self._certificates(place[key], key) for place, key in bundles]

    def _certificates(self, encoded: str, key: str) -> list[str]:
        try:
            if found := openssl.bundled(base64.b64decode(encoded).decode()):
                return found
        except ValueError:
            pass
        raise RefusedError(f"{self.title}: {key} has no certificate in PEM")

    def trust(self, wanted: Sequence[Sequence[str]]) -> bool:
        """Replace the certificates of each bundle; return whether that changes the object."""
        for (place, key), certs in zip(self._bundles, wanted, strict=True):
            place[key] = _encoded("".join(certs))
        return [*wanted] != self.trusted


class Secret(Trusting):
    """A secret with ca.crt, tls.crt and tls.key, which are `ca`, `cert` and a key that is not read."""

    def __init__(self, path: str, body: dict[str, Any]) -> None:
        """Raises RefusedError."""
        title = f"Secret {body['metadata']['name']}"
        if _CERT_MANAGER in (body["metadata"].get("annotations") or {}):
            raise RefusedError(f"{title} belongs to cert-manager, which renews it")
        self._data: dict[str, str] = body.get("data") or {}
        if missing := {"ca.crt", "tls.crt", "tls.key"} - self._data.keys():
            raise RefusedError(f"{title} has no {', '.join(sorted(missing))}")
        super().__init__(path, body, [(self._data, "ca.crt")])
        self.ca = "".join(self.trusted[0])
        self.cert = base64.b64decode(self._data["tls.crt"]).decode(errors="replace")

    def replace(self, cert: str, key: str) -> bool:
        """Replace the certificate and its key; return whether that changes the secret."""
        self._data.update({"tls.crt": _encoded(cert), "tls.key": _encoded(key)})
        return cert != self.cert


def next_step(made: Made, secrets: Mapping[str, Secret], others: Sequence[Trusting]) -> Step | None:
    """Return the first step that is not complete; None after all. Raises RefusedError."""
    bundles = [bundle for one in (*secrets.values(), *others) for bundle in one.trusted]
    replaced = all(secret.cert == made.certs[name] for name, secret in secrets.items())
    if not replaced and made.keys.keys() != made.certs.keys():
        raise RefusedError("keys are missing in the folder; name an empty one")
    if not all(made.ca in bundle for bundle in bundles):
        return Step.TRUST
    if not replaced:
        return Step.REPLACE
    return Step.DISTRUST if any(bundle != [made.ca] for bundle in bundles) else None


def change(
    step: Step, made: Made, secrets: Mapping[str, Secret], others: Sequence[Trusting]
) -> list[Trusting]:
    """Change the objects as the step does; return those that differ from before."""
    if step is Step.REPLACE:
        return [
            secret
            for name, secret in secrets.items()
            if secret.replace(made.certs[name], made.keys[name])
        ]
    return [
        one
        for one in (*secrets.values(), *others)
        if one.trust([_wanted(step, made.ca, bundle) for bundle in one.trusted])
    ]


def _wanted(step: Step, ca: str, bundle: list[str]) -> list[str]:
    if step is Step.DISTRUST:
        return [ca]
    return bundle if ca in bundle else [*bundle, ca]


def _encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()
