"""Flags of the extender port: its address, certificates and permitted clients."""

from dataclasses import dataclass

from plimsoll import flags
from plimsoll.flags import option
from plimsoll.http.limits import Limits

_DEFAULT = Limits()


@dataclass(frozen=True, kw_only=True)
class ExtenderOptions:
    """The extender port."""

    port: int = option(
        "port", 9001, "port for requests of kube-scheduler", metavar="PORT", parse=flags.port
    )
    cert: str = option(
        "cert", "/etc/kubernetes/pki/ca.crt", "server certificate of that port", metavar="FILE"
    )
    key: str = option("key", "/etc/kubernetes/pki/ca.key", "its private key", metavar="FILE")
    cacert: str = option(
        "cacert",
        "/etc/kubernetes/pki/ca.crt",
        "the CA that must have signed the scheduler's client certificate",
        metavar="FILE",
    )
    client_names: tuple[str, ...] = option(
        "clientNames",
        (),
        "names (CN or DNS), one of which a client certificate must have, e.g. `system:kube-scheduler`; repeatable, or "
        "separated by commas. By default every certificate of that CA is accepted, as in Telemetry Aware Scheduling",
        metavar="NAME",
        parse=flags.names,
    )
    unsafe: bool = option(
        "unsafe", False, "serve kube-scheduler over plain HTTP, without authentication of clients"
    )
    limits: Limits = _DEFAULT
    """Timeouts, sizes and connections of each HTTP port. Constants: tests pass smaller ones, no flag sets them."""

    @property
    def allowed_clients(self) -> frozenset[str]:
        """The names of `clientNames`; empty if any client is allowed."""
        return frozenset(name for item in self.client_names for name in item.split(","))

    def extender_mistakes(self) -> list[str]:
        """Return the errors in these settings together, as sentences."""
        errors = []
        if self.client_names and self.unsafe:
            errors.append(
                "--clientNames and --unsafe contradict each other: plain HTTP has no certificates"
            )
        return errors
