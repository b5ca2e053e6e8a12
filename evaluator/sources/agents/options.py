"""Flags of the port to which agents stream: who may, and how much of this program one agent may take."""

from dataclasses import dataclass

from evaluator.sources.agents.limits import AgentLimits
from plimsoll import flags, sizes
from plimsoll.flags import option

_DEFAULT = AgentLimits()


def account(text: str) -> str:
    """A ServiceAccount, `namespace/name`."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or set(name) & set("/:") or ":" in namespace:
        raise ValueError(f"not a ServiceAccount: {text!r} (write it like plimsoll/plimsoll-agent)")
    return text


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """The agents' port. Times are in seconds, sizes in bytes."""

    agent_port: int = option(
        "agentPort", 9091, "port to which agents stream (gRPC)", metavar="PORT", parse=flags.port
    )
    agent_identity: str = option(
        "agentIdentity",
        "certificate",
        "how an agent shows which node it is: `certificate` (its client certificate has the node's name as CN, with or "
        "without `system:node:`, or as a DNS name) or `token` (it sends a ServiceAccount token that is bound to the node "
        "or to a pod there)",
        metavar="HOW",
        parse=flags.choice("certificate", "token"),
    )
    agent_cert: str = option(
        "agentCert",
        "",
        "server certificate of the agents' port; without one that of --cert",
        metavar="FILE",
    )
    agent_key: str = option("agentKey", "", "its private key", metavar="FILE")
    agent_cacert: str = option(
        "agentCacert",
        "",
        "the CA that must have signed an agent's client certificate; without one that of --cacert",
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
        "the ServiceAccount that an agent's token must be of: any pod can have a token with our audience",
        metavar="NAMESPACE/NAME",
        parse=account,
    )
    agent_unsafe: bool = option(
        "agentUnsafe",
        False,
        "let agents stream in plain text, and believe whoever can reach the port to be the node it says; implied by "
        "--unsafe, unless --agentCert is given",
    )
    agent_handshake_timeout: float = option(
        "agentHandshakeTimeout",
        _DEFAULT.handshake,
        "how long an agent's TLS and HTTP/2 handshakes may take",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    agent_hello_timeout: float = option(
        "agentHelloTimeout",
        _DEFAULT.introduction,
        "how long the first report of an agent's stream may take, and how long a connection may have no stream",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    agent_max_age: float = option(
        "agentMaxAge",
        _DEFAULT.age,
        "how old a stream may become before it has to begin anew, with credentials that are looked at again",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    agent_max_streams: int = option(
        "agentMaxStreams",
        _DEFAULT.streams,
        "streams of all agents at a time, and connections; with TLS each takes some 90KiB",
        metavar="N",
        parse=flags.count,
    )
    agent_max_streams_per_connection: int = option(
        "agentMaxStreamsPerConnection",
        _DEFAULT.streams_per_connection,
        "streams at a time on one connection; an agent needs one, a proxy puts those of several on one",
        metavar="N",
        parse=flags.count,
    )
    agent_max_streams_per_node: int = option(
        "agentMaxStreamsPerNode",
        _DEFAULT.streams_per_node,
        "streams of one node at a time: the newest counts, and those that it replaced until they have ended",
        metavar="N",
        parse=flags.count,
    )
    agent_stream_pause: float = option(
        "agentStreamPause",
        _DEFAULT.pause,
        f"how long it takes, in the long run, until another stream of one node may begin; {_DEFAULT.beginnings} may at once",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    agent_max_reports: int = option(
        "agentMaxReports",
        int(_DEFAULT.reports),
        "reports of one node taken in within a second, in the long run; what comes faster is read later",
        metavar="N",
        parse=flags.count,
    )
    agent_max_report_bytes: int = option(
        "agentMaxReportBytes",
        _DEFAULT.report_bytes,
        "the largest report; 1,000 readings are some 12KiB",
        metavar="SIZE",
        parse=sizes.size,
    )

    @property
    def agent_limits(self) -> AgentLimits:
        """What one agent may take, and all of them."""
        return AgentLimits(
            handshake=self.agent_handshake_timeout,
            introduction=self.agent_hello_timeout,
            age=self.agent_max_age,
            streams=self.agent_max_streams,
            streams_per_connection=self.agent_max_streams_per_connection,
            streams_per_node=self.agent_max_streams_per_node,
            pause=self.agent_stream_pause,
            reports=self.agent_max_reports,
            report_bytes=self.agent_max_report_bytes,
        )

    def agent_mistakes(self, *, plain: bool) -> list[str]:
        """What is wrong with these together, each in a sentence; `plain` says that the port has no TLS."""
        found = []
        if bool(self.agent_cert) != bool(self.agent_key):
            found.append("--agentCert and --agentKey belong together")
        if self.agent_unsafe and self.agent_cert:
            found.append("--agentUnsafe and --agentCert contradict each other")
        if plain and self.agent_identity == "token":
            found.append(
                "--agentIdentity=token needs TLS on the agents' port, or the tokens are anybody's: name --agentCert and "
                "--agentKey"
            )
        return found
