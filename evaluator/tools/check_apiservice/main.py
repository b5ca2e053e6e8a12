"""The command `plimsoll check-apiservice`: flags, reads, output, exit status."""

import asyncio
import base64
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from evaluator.core.kube.client import read_object
from evaluator.core.kube.connection import ConfigError, KubeConnection
from evaluator.core.kube.resources import segment
from evaluator.core.kube.transport import APISession, KubeError
from evaluator.core.options import KubeOptions
from evaluator.tools.check_apiservice import verdict
from evaluator.tools.check_apiservice.verdict import APIService, Installation, Verdict
from plimsoll import flags, logs
from plimsoll.commandline import Parser
from plimsoll.flags import option

T = TypeVar("T")

PROGRAM = "plimsoll check-apiservice"
_ABOUT = """
Says whether the custom metrics API of a cluster is free, served by Plimsoll and available, or belongs to another program, such as
prometheus-adapter, and what to do next. Sends one request to each version that is available; changes nothing. Run it before you apply components/serve-custom-metrics, since one Service
answers for an API in a cluster, and when metrics are missing.
"""
_EXAMPLES = """
exit status: 0 if the API is free or works, 1 if it belongs to another program, does not work or cannot be read, 2 for wrong flags.

The account needs to get apiservices; to compare certificates, also the secret.

example:
  plimsoll check-apiservice &&
    kubectl apply --server-side -k deploy/custom-metrics-api
"""


def service_name(text: str) -> str:
    """Return a Service, `namespace/name`. Raises ValueError."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"not a Service: {text!r} (write it like plimsoll/plimsoll-evaluator)")
    return text


@dataclass(frozen=True, kw_only=True)
class CheckAPIServiceSettings(KubeOptions):
    """Every flag of plimsoll check-apiservice."""

    service: str = option(
        "service",
        "plimsoll/plimsoll-evaluator",
        "the evaluator's Service",
        metavar="NAMESPACE/NAME",
        parse=service_name,
    )
    secret: str = option(
        "secret",
        "plimsoll-extender-tls",
        "the secret with the evaluator's certificate, in the namespace of the Service",
        metavar="NAME",
    )


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


def main(argv: Sequence[str]) -> int:
    """Print the verdict on each version; returns the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    settings = flags.parse_settings(CheckAPIServiceSettings, command, argv=argv, env=os.environ)
    logs.setup("warn", "logfmt")
    try:
        verdicts = asyncio.run(_judge(settings))
    except (ConfigError, KubeError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    for judged in verdicts:
        sys.stdout.write(f"{judged.sentence}\n")
        sys.stdout.writelines(f"  - {step}\n" for step in judged.steps)
    sentence, status = verdict.conclusion(verdicts)
    sys.stdout.write(f"{sentence}\n")
    return status


async def _judge(settings: CheckAPIServiceSettings) -> list[Verdict]:
    """Raises ConfigError or KubeError."""
    connection = await KubeConnection.open(settings.kube_config)
    try:
        session = APISession(connection)
        ca = await _ca(session, settings)
        installed = Installation(settings.service, settings.secret, ca)
        verdicts = []
        for version in verdict.VERSIONS:
            name = f"{version}.{verdict.GROUP}"
            path = f"/apis/apiregistration.k8s.io/v1/apiservices/{name}"
            service = await read_object(session, path, APIService)
            failure = ""
            if service and verdict.ours(service, installed) and service.available.status == "True":
                failure = await _failure(session, version)
            verdicts.append(verdict.judge(name, service, installed, failure))
        return verdicts
    finally:
        await connection.close()


async def _ca(session: APISession, settings: CheckAPIServiceSettings) -> str | None:
    """Return ca.crt of the evaluator's secret; None if it does not exist or may not be read."""
    namespace = settings.service.partition("/")[0]
    path = f"/api/v1/namespaces/{segment(namespace)}/secrets/{segment(settings.secret)}"
    try:
        secret = await read_object(session, path, _Secret)
    except KubeError as error:
        if error.status == 403:
            return None
        raise
    encoded = (secret.data or {}).get("ca.crt") if secret else None
    return base64.b64decode(encoded).decode(errors="replace") if encoded else None


async def _failure(session: APISession, version: str) -> str:
    """Send one request through kube-apiserver; return its error, empty if it succeeds. Every account may discover APIs."""
    try:
        await session.request("GET", f"/apis/{verdict.GROUP}/{version}", {})
    except KubeError as error:
        return str(error)
    return ""
