"""Says in words what is wrong with an APIService, and what to do next.

The reasons are those of kube-aggregator (pkg/controllers/status/remote/remote_available_controller.go).
"""

import base64
import binascii
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from plimsoll.text import one_line

GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta1", "v1beta2")
COMPONENT = "deploy/components/serve-custom-metrics"


class ServiceReference(msgspec.Struct):
    """The Service that answers for an APIService."""

    namespace: str = ""
    name: str = ""
    port: int = 443

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Condition(msgspec.Struct):
    """A condition of an APIService."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    service: ServiceReference | None = None
    ca_bundle: str = ""
    insecure_skip_tls_verify: bool = msgspec.field(default=False, name="insecureSkipTLSVerify")


class _Status(msgspec.Struct):
    conditions: list[Condition] | None = None


class _Meta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class APIService(msgspec.Struct):
    """The fields of an APIService that matter here."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def available(self) -> Condition:
        """The condition Available; an empty one if the API server has not checked yet."""
        conditions = self.status.conditions or []
        return next(
            (condition for condition in conditions if condition.type == "Available"), Condition()
        )


class State(Enum):
    """What an APIService is to Plimsoll."""

    FREE = auto()
    TAKEN = auto()
    AVAILABLE = auto()
    UNAVAILABLE = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of one APIService, in a sentence, and what to do next, one step a line."""

    state: State
    sentence: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Installation:
    """Where Plimsoll's evaluator is installed: `namespace/name` of its Service, and its secret with the server certificate.

    `ca`: the secret's ca.crt in PEM; None if it cannot be read.
    """

    service: str
    secret: str
    ca: str | None = None

    @property
    def namespace(self) -> str:
        """The namespace of the Service."""
        return self.service.partition("/")[0]


def ours(api: APIService | None, installed: Installation) -> bool:
    """Return whether an APIService exists and refers to the evaluator's Service."""
    return api is not None and str(api.spec.service) == installed.service


def judge(name: str, api: APIService | None, installed: Installation, failure: str = "") -> Verdict:
    """Return the verdict on an APIService; None: it does not exist.

    `failure`: the error of a request to the API, if one was sent and failed. The condition Available alone does not show
    that requests work: API servers up to 1.33 at least do not verify the certificate for it.
    """
    if api is None:
        return Verdict(State.FREE, f"{name}: not registered")
    if not ours(api, installed):
        return _taken(name, api)
    service, available = api.spec.service, api.available
    if failure:
        return Verdict(
            State.UNAVAILABLE,
            f"{name}: served by {service}, requests fail: {one_line(failure)}",
            tuple(_remedies(name, api, installed, failure)),
        )
    if available.status == "True":
        return Verdict(State.AVAILABLE, f"{name}: served by {service}, available")
    reason = one_line(available.message or available.reason or "not checked yet")
    return Verdict(
        State.UNAVAILABLE,
        f"{name}: served by {service}, not available: {reason}",
        tuple(_remedies(name, api, installed, available.message)),
    )


def _taken(name: str, api: APIService) -> Verdict:
    service = api.spec.service
    owner = f"the Service {service}" if service else "the API server itself"
    annotations = api.metadata.annotations or {}
    release = annotations.get("meta.helm.sh/release-name")
    helm = f" (Helm release {release})" if release else ""
    state = "available" if api.available.status == "True" else "not available"
    return Verdict(
        State.TAKEN,
        f"{name}: belongs to {owner}{helm}, {state}",
        (
            f"to keep it, do not apply {COMPONENT}: it would take the API over",
            "to replace it, remove it where it was installed, then run this command again",
        ),
    )


def _remedies(name: str, api: APIService, installed: Installation, message: str) -> Iterator[str]:
    """Yield what to do about a message; the first branches need the reason of the condition only."""
    reason, namespace = api.available.reason, installed.namespace
    port = api.spec.service.port if api.spec.service else 443
    if reason in {"ServiceNotFound", "ServicePortError"}:
        yield f"apply the evaluator with the component {COMPONENT}, which adds the port to its Service"
    elif reason in {"MissingEndpoints", "EndpointsNotFound", "EndpointsAccessError"}:
        yield (
            f"no ready replica has port {port}. During a rollout this ends by itself: a new replica is ready after its first "
            f"readings; otherwise kubectl -n {namespace} get pods, then /readyz of one of them"
        )
    elif "401" in message or "remote error: tls" in message:
        yield (
            "the evaluator does not recognize the front proxy: check in its log that it reads ConfigMap "
            f"kube-system/extension-apiserver-authentication (RoleBinding plimsoll-evaluator-auth-reader of {COMPONENT})"
        )
        yield "kube-apiserver needs --proxy-client-cert-file, signed by the CA of --requestheader-client-ca-file"
    elif "x509" in message or "certificate" in message or api.available.status == "True":
        # The condition is True although requests fail: that check of kube-apiserver verified no certificate.
        yield from _certificate(name, api, installed)
    elif reason == "FailedDiscoveryCheck":
        yield (
            f"kube-apiserver does not reach the pods on port {port}: open it "
            "from the control plane (firewall, NetworkPolicy), or see docs/troubleshooting.md"
        )
    yield (
        "until it is available, Kubernetes finishes no deletion of a namespace; to end that now: "
        f"kubectl delete apiservice {name}"
    )


def _certificate(name: str, api: APIService, installed: Installation) -> Iterator[str]:
    secret = f"{installed.namespace}/{installed.secret}"
    patch = (
        f"kubectl patch apiservice {name} --type=merge -p "
        f'"{{\\"spec\\":{{\\"caBundle\\":\\"$(kubectl -n {installed.namespace} get secret {installed.secret} '
        "-o jsonpath='{.data.ca\\.crt}')\\\"}}\""
    )
    bundle = api.spec.ca_bundle
    if not bundle:
        yield "caBundle is empty: cert-manager's cainjector has not filled it in, or is not installed"
        yield patch
    elif installed.ca is None:
        yield f"compare caBundle with ca.crt of the secret {secret}, which does not exist or this account may not read"
    elif certificates(_decoded(bundle)).isdisjoint(certificates(installed.ca)):
        yield f"caBundle is not the CA in the secret {secret}, which signs the evaluator's certificate"
        yield patch
    else:
        namespace, _, service = installed.service.partition("/")
        yield (
            f"caBundle is the CA in the secret {secret}; its tls.crt may be signed by another CA, have expired, or lack the name "
            f"{service}.{namespace}.svc"
        )


def certificates(pem: str) -> frozenset[bytes]:
    """Return the certificates of a PEM bundle in DER; text that is no certificate is ignored."""
    digests = set()
    for part in pem.split("-----BEGIN CERTIFICATE-----")[1:]:
        body = part.partition("-----END CERTIFICATE-----")[0]
        try:
            digests.add(
                ssl.PEM_cert_to_DER_cert(
                    f"-----BEGIN CERTIFICATE-----{body}-----END CERTIFICATE-----"
                )
            )
        except (ValueError, binascii.Error):
            continue
    return frozenset(digests)


def _decoded(bundle: str) -> str:
    try:
        return base64.b64decode(bundle).decode(errors="replace")
    except binascii.Error:
        return ""


def conclusion(verdicts: list[Verdict]) -> tuple[str, int]:
    """Return what follows from the verdicts on all versions, and the exit status."""
    states = {verdict.state for verdict in verdicts}
    if State.TAKEN in states:
        return "The custom metrics API belongs to another program.", 1
    if State.UNAVAILABLE in states:
        return "The custom metrics API is registered and does not work.", 1
    if states == {State.FREE}:
        return f"The custom metrics API is free: apply the evaluator with {COMPONENT}.", 0
    if State.FREE in states:
        return f"Only one version is registered: apply {COMPONENT}, which has both.", 1
    return "The custom metrics API is served by Plimsoll.", 0
