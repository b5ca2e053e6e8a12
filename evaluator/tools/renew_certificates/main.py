"""The command `plimsoll renew-certificates`: flags, reads and writes, output, exit status.

Each write names the resourceVersion that was read, so nothing written meanwhile is lost; the next run continues one that ended.
"""

import asyncio
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.core.kube.client import read_object
from evaluator.core.kube.connection import ConfigError, KubeConnection
from evaluator.core.kube.resources import secrets_path, segment
from evaluator.core.kube.transport import APISession, KubeError
from evaluator.core.options import KubeOptions
from evaluator.tools.renew_certificates import folder as files
from evaluator.tools.renew_certificates import openssl, steps
from evaluator.tools.renew_certificates.openssl import Names, OpensslError
from evaluator.tools.renew_certificates.steps import RefusedError, Secret, Step, Trusting
from plimsoll import flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option

SCHEDULER = "plimsoll-scheduler-client"
"""Secret with the client certificate of kube-scheduler."""
_SERVICE = "plimsoll-evaluator"
_TRUSTING = (
    "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.custom.metrics.k8s.io",
    "/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.custom.metrics.k8s.io",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll-gangs",
)
"""Objects whose caBundle lets the API server trust the evaluator, if they exist."""
PROGRAM = "plimsoll renew-certificates"
_ABOUT = """
Replaces the certificates of an installation without cert-manager (by hand, or the chart's job), and their CA, whose key was not
kept. Run it three times with the same FOLDER; each run says what to do on the control plane nodes before the next:

  1. makes a new CA and certificates in FOLDER, and adds the CA to ca.crt of
     the three secrets, beside the old one
  2. replaces tls.crt and tls.key of the three secrets
  3. removes the old CA, and the keys in FOLDER

Every connection works all the time, if the control plane nodes get their copy after each run. A caBundle of the custom metrics
API and of the webhook for gangs is written as ca.crt is. Keys are never printed.
"""
_EXAMPLES = """
exit status: 0 if the step is done, 1 if it was refused or a call failed, 2 for wrong flags. It is safe to run again.

Needs OpenSSL 3. The account needs to get and update the three secrets, the APIServices and the
MutatingWebhookConfiguration.

example:
  plimsoll renew-certificates ./2027 --dry-run
  plimsoll renew-certificates ./2027
"""


@dataclass(frozen=True, kw_only=True)
class RenewCertificatesSettings(KubeOptions):
    """Every flag of plimsoll renew-certificates."""

    namespace: str = option("namespace", "plimsoll", "namespace of the secrets", metavar="NAME")
    extender_secret: str = option(
        "extender-secret",
        "plimsoll-extender-tls",
        "secret with the certificate for kube-scheduler",
        metavar="NAME",
    )
    agents_secret: str = option(
        "agents-secret",
        "plimsoll-agents-tls",
        "secret with the certificate for agents",
        metavar="NAME",
    )
    yes: bool = option("yes", False, "do not ask whether the control plane nodes were done")
    dry_run: bool = option("dry-run", False, "only print what would change")


def main(argv: Sequence[str]) -> int:
    """Take the next step, or print it with --dry-run; returns the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    command.add_argument("folder", metavar="FOLDER", type=Path, help="absent or empty at first")
    flags.add_options(command, RenewCertificatesSettings)
    given = command.parse_args(argv)
    settings = flags.from_namespace(RenewCertificatesSettings, command, given, env=os.environ)
    logs.setup("warn", "logfmt")
    try:
        asyncio.run(_renew(settings, given.folder.absolute()))
    except (ConfigError, KubeError, OpensslError, OSError, RefusedError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    return 0


async def _renew(settings: RenewCertificatesSettings, folder: Path) -> None:
    """Raises ConfigError, KubeError, OpensslError, OSError, RefusedError."""
    connection = await KubeConnection.open(settings.kube_config)
    try:
        await _take_step(APISession(connection), settings, folder)
    finally:
        await connection.close()


async def _take_step(
    session: APISession, settings: RenewCertificatesSettings, folder: Path
) -> None:
    """Raises KubeError, OpensslError, OSError, RefusedError."""
    secrets = await _secrets(session, settings)
    names = _checked(secrets)
    others = [one for path in _TRUSTING if (one := await _other(session, path, settings))]
    if files.is_new(folder):
        if settings.dry_run:
            sys.stdout.write(f"would make a new CA and certificates in {folder}\n")
            _print(Step.TRUST.planned, [*secrets.values(), *others])
            return
        files.make(folder, names)
        sys.stdout.write(f"made a new CA and certificates in {folder}\n")
    made = files.load(folder, names)
    step = steps.next_step(made, secrets, others)
    changed = steps.change(step, made, secrets, others) if step else []
    if step is None:
        sys.stdout.write(f"nothing to do: the certificates in {folder} are in use\n")
    elif settings.dry_run:
        _print(step.planned, changed)
    else:
        _confirm(step, settings)
        for one in changed:
            await session.request("PUT", one.path, {}, body=one.body)
            _print(step.done, [one])
        sys.stdout.write(_next(step, settings))
    if step in {Step.DISTRUST, None} and not settings.dry_run:
        files.delete_keys(folder)


async def _secrets(session: APISession, settings: RenewCertificatesSettings) -> dict[str, Secret]:
    """Raises KubeError, RefusedError."""
    names = (settings.extender_secret, settings.agents_secret, SCHEDULER)
    secrets = {}
    for name, secret in zip(files.USAGES, names, strict=True):
        path = f"{secrets_path(settings.namespace)}/{segment(secret)}"
        if (body := await read_object(session, path, dict[str, Any])) is None:
            raise RefusedError(f"there is no Secret {settings.namespace}/{secret}")
        secrets[name] = Secret(path, body)
    return secrets


def _checked(secrets: Mapping[str, Secret]) -> dict[str, Names]:
    """Return what the certificates were issued for, if each secret trusts all three. Raises OpensslError, RefusedError."""
    for one in secrets.values():
        for other in secrets.values():
            try:
                openssl.check(other.cert, one.ca, expired=True)
            except OpensslError as error:
                raise RefusedError(
                    f"{one.title}: no CA in its ca.crt signed tls.crt of {other.title}: {error}"
                ) from error
    return {name: openssl.names_of(secret.cert) for name, secret in secrets.items()}


async def _other(
    session: APISession, path: str, settings: RenewCertificatesSettings
) -> Trusting | None:
    """Return an object that lets the API server trust this evaluator. Raises KubeError."""
    if (body := await read_object(session, path, dict[str, Any])) is None:
        return None
    ours = {"namespace": settings.namespace, "name": _SERVICE}
    webhooks = [one["clientConfig"] for one in body.get("webhooks", [])]
    configurations = [body["spec"]] if "spec" in body else webhooks
    bundles = [
        (one, "caBundle")
        for one in configurations
        if one.get("caBundle") and ours.items() <= (one.get("service") or {}).items()
    ]
    return Trusting(path, body, bundles) if bundles else None


def _confirm(step: Step, settings: RenewCertificatesSettings) -> None:
    """Ask whether the step may be taken. Raises RefusedError without a yes."""
    required = step.required
    if not required or settings.yes:
        return
    if not sys.stdin.isatty():
        raise RefusedError(f"nothing was changed: add --yes if {required}")
    sys.stderr.write(f"{textwrap.fill(f'Go on only if {required}.', 80)}\nContinue? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise RefusedError("nothing was changed")


def _next(step: Step, settings: RenewCertificatesSettings) -> str:
    """Return what to do after a step: the files are those that configure-scheduler names."""
    then = "That was the last run." if step is Step.DISTRUST else "Then run this command again."
    return f"""
Now on each control plane node, one after the other, as root:

  (set -euo pipefail; umask 077; cd /etc/kubernetes/plimsoll
  for file in ca.crt tls.crt tls.key; do
    kubectl -n {settings.namespace} get secret {SCHEDULER} \\
      -o "go-template={{{{index .data \\"$file\\"}}}}" | base64 -d > "$file.new"
  done
  for file in ca.crt tls.crt tls.key; do mv "$file.new" "$file"; done
  crictl stop $(crictl ps --name kube-scheduler -q))  # the kubelet restarts it

If another program has a copy of ca.crt, such as Prometheus, replace it too.
{then}
"""


def _print(done: str, changed: Sequence[Trusting]) -> None:
    sys.stdout.writelines(f"{one.title}: {done}\n" for one in changed)
