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
        "port", 9001, "port on which kube-scheduler is answered", metavar="PORT", parse=flags.port
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
        "the names (CN or DNS) of which a client's certificate must have one, `system:kube-scheduler` say; repeatable, or "
        "with commas between them. Without any, every certificate of that CA will do, as for Telemetry Aware Scheduling",
        metavar="NAME",
        parse=flags.names,
    )
    unsafe: bool = option(
        "unsafe", False, "answer kube-scheduler over plain HTTP, to anybody who can reach the port"
    )
    limits: Limits = _DEFAULT
    """Timeouts, sizes and connections of each HTTP port. Constants: no flag sets them, tests pass smaller ones."""

    @property
    def allowed_clients(self) -> frozenset[str]:
        """The names of `clientNames`; empty for any."""
        return frozenset(name for given in self.client_names for name in given.split(","))

    def extender_mistakes(self) -> list[str]:
        """What is wrong with these settings together, each in a sentence."""
        found = []
        if self.client_names and self.unsafe:
            found.append(
                "--clientNames and --unsafe contradict each other: plain HTTP has no certificates"
            )
        return found
