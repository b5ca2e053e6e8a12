"""Flags of `plimsoll-evaluator record`."""

from dataclasses import dataclass

from evaluator.core.sources.agents.options import AgentOptions
from plimsoll import durations, sizes
from plimsoll.flags import option
from plimsoll.logs import LogOptions
from plimsoll.recording.names import metric_names
from plimsoll.recording.options import RecordingOptions


@dataclass(frozen=True, kw_only=True)
class Options(RecordingOptions, AgentOptions, LogOptions):
    """The flags beside --file. Times are in seconds."""

    every: float = option(
        "every",
        15.0,
        "how often agents report; changed .prom files are reported at once",
        metavar="DURATION",
        parse=durations.duration,
    )
    max_size: int = option(
        "max-size",
        10 << 30,
        "bytes of the files of all nodes; the oldest are deleted",
        metavar="SIZE",
        parse=sizes.size,
    )
    metrics: frozenset[str] = option(
        "metrics",
        frozenset(),
        "names of metrics to record beside those of the policies, separated by commas",
        metavar="NAMES",
        parse=metric_names,
    )
    bind_address: str = option(
        "bindAddress", "", "address to listen on; empty for all", metavar="ADDRESS"
    )
    kube_config: str = option(
        "kubeConfig",
        "",
        "as the evaluator's flag; only for --agentIdentity=token, to review tokens",
        env="KUBECONFIG",
        metavar="FILE",
    )

    def mistakes(self) -> list[str]:
        """Mistakes in the combination of flags, one sentence each."""
        sentences = [*self.recording_mistakes()]
        if not self.agent_unsafe and not self.agent_cert:
            sentences.append(
                "--agentCert and --agentKey are missing: name the certificate of this port, or pass --agentUnsafe to record what "
                "any client reports"
            )
        elif (
            not self.agent_unsafe and self.agent_identity == "certificate" and not self.agent_cacert
        ):
            sentences.append(
                "--agentCacert is missing: name the CA of the agents' certificates, or use --agentIdentity=token"
            )
        return sentences + self.agent_mistakes(plain=self.agent_unsafe)
