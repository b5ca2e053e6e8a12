"""Flags of the agents' port: its address, files, and how agents authenticate."""

from dataclasses import dataclass

from evaluator.core.sources.agents.limits import AgentLimits
from plimsoll import flags
from plimsoll.flags import option

_LIMITS = AgentLimits()


def account(text: str) -> str:
    """Return a ServiceAccount, `namespace/name`. Raises ValueError."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or set(name) & set("/:") or ":" in namespace:
        raise ValueError(f"not a ServiceAccount: {text!r} (write it like plimsoll/plimsoll-agent)")
    return text


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """The port of agents."""

    agent_port: int = option(
        "agentPort", 9091, "port to which agents stream (gRPC)", metavar="PORT", parse=flags.port
    )
    agent_identity: str = option(
        "agentIdentity",
        "certificate",
        "how agents authenticate their node: `certificate` (its client certificate has the node's name as CN, with or "
        "without `system:node:`, or as a DNS name) or `token` (it sends a ServiceAccount token that is bound to the node "
        "or to a pod there)",
        metavar="HOW",
        parse=flags.choice("certificate", "token"),
    )
    agent_cert: str = option(
        "agentCert",
        "",
        "server certificate of the agents' port; default: that of --cert",
        metavar="FILE",
    )
    agent_key: str = option("agentKey", "", "its private key", metavar="FILE")
    agent_cacert: str = option(
        "agentCacert",
        "",
        "the CA that must have signed an agent's client certificate; default: that of --cacert",
        metavar="FILE",
    )
    agent_audience: str = option(
        "agentAudience",
        "plimsoll-evaluator",
        "the audience that an agent's token must be made for",
        metavar="NAME",
    )
    agent_account: str = option(
        "agentServiceAccount",
        "plimsoll/plimsoll-agent",
        "the ServiceAccount that an agent's token must belong to: any pod can get a token for our audience",
        metavar="NAMESPACE/NAME",
        parse=account,
    )
    agent_unsafe: bool = option(
        "agentUnsafe",
        False,
        "let agents stream in plain text without authentication: any client can report for any node; implied by "
        "--unsafe, unless --agentCert is given",
    )
    agent_limits: AgentLimits = _LIMITS
    """Timeouts, streams and sizes of the port. Constants: no flag sets them, tests pass smaller ones."""

    def agent_mistakes(self, *, plain: bool) -> list[str]:
        """Return the errors in these settings together, as sentences; `plain`: the port has no TLS."""
        errors = []
        if bool(self.agent_cert) != bool(self.agent_key):
            errors.append("--agentCert and --agentKey belong together")
        if self.agent_unsafe and self.agent_cert:
            errors.append("--agentUnsafe and --agentCert contradict each other")
        if plain and self.agent_identity == "token":
            errors.append(
                "--agentIdentity=token needs TLS on the agents' port, or tokens are sent in plain text: name --agentCert and "
                "--agentKey"
            )
        return errors
