"""The agent's flags: those of node_exporter, the agent's own, and those defined by collectors."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent import node_exporter
from agent.rules.options import RuleOptions
from collectors.interface.host import Host
from collectors.registry import COLLECTORS
from plimsoll import durations, flags
from plimsoll.commandline import Parser
from plimsoll.flags import option
from plimsoll.http import addresses
from plimsoll.http.addresses import Address
from plimsoll.logs import LogOptions

PROGRAM = "plimsoll-agent"
COMMANDS = ("backfill", "check-rules", "eval", "kernel-log", "record")
"""Subcommands, with modules of their own."""
_ABOUT = """
Serves metrics of this node (memory, CPU, pressure, health files, ...) to Prometheus like node_exporter, and streams those that
policies use to an evaluator.
"""
_EXAMPLES = """
examples:
  plimsoll-agent --collector.textfile.directory=/var/lib/node-metrics
      serve this machine's metrics and those in *.prom files, on port 9100
  plimsoll-agent --evaluator.address=evaluator.example:9091 --node.name=node-a
      stream to an evaluator as well; in a pod, set $NODE_NAME instead
  plimsoll-agent --collector.disable-defaults --collector.synthetic
      synthetic values, on any machine
  plimsoll-agent --path.procfs=/host/proc --path.sysfs=/host/sys
      in a container, with the host's directories mounted there

commands, each with a --help of its own:
  kernel-log            hand the kernel's log over to an unprivileged agent
  record                write this node's metrics to files, for backtests
  eval, check-rules, check-problems, backfill
                        those of plimsoll (see plimsoll --help)

A switch is turned off by --no-<flag> or --<flag>=false. Flags may be written with one dash or two. @FILE stands for the
lines of a file, one argument each. For completion in a shell: source <(plimsoll-agent --completion-script-bash)
"""


def _telemetry_path(text: str) -> str:
    if not text.startswith("/") or text in {"/healthz", "/readyz"} or set(text) & set("?# \t"):
        raise ValueError(f"not a path for metrics: {text!r} (write it like /metrics)")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(LogOptions):
    """The agent's settings."""

    listen_addresses: tuple[Address, ...] = option(
        "web.listen-address",
        (Address("", 9100),),
        "address to serve metrics on; port 0 selects a free port (repeatable)",
        metavar="ADDRESS",
        parse=addresses.parse,
    )
    telemetry_path: str = option(
        "web.telemetry-path",
        "/metrics",
        "path of the metrics",
        metavar="PATH",
        parse=_telemetry_path,
    )
    web_config: str = option(
        "web.config.file",
        "",
        "file with TLS, users and headers, in the format that all Prometheus exporters share",
        metavar="FILE",
    )
    max_requests: int = option(
        "web.max-requests",
        40,
        "scrapes answered at once; more get status 503; 0 for no limit",
        metavar="NUMBER",
        parse=flags.count_or_zero,
    )
    disable_exporter_metrics: bool = option(
        "web.disable-exporter-metrics",
        False,
        "leave out metrics about the agent itself (process_*, python_*, plimsoll_agent_*)",
    )
    node_exporter_compat: bool = option(
        "web.node-exporter-compat",
        False,
        "export node_exporter_build_info, for dashboards and alerts that select by it",
    )
    evaluator_address: str = option(
        "evaluator.address",
        "",
        "the evaluator to stream to, as host:port; empty: no stream",
        metavar="ADDRESS",
        parse=addresses.parse_peer,
    )
    evaluator_ca: str = option(
        "evaluator.tls.ca-file",
        "",
        "the CA that must have signed the evaluator's certificate; without it the stream is plain text",
        metavar="FILE",
    )
    evaluator_cert: str = option(
        "evaluator.tls.cert-file",
        "",
        "client certificate for the evaluator, issued for this node's name",
        metavar="FILE",
    )
    evaluator_key: str = option(
        "evaluator.tls.key-file", "", "private key of the client certificate", metavar="FILE"
    )
    evaluator_server_name: str = option(
        "evaluator.tls.server-name",
        "",
        "the name that the evaluator's certificate must have; by default the host of --evaluator.address",
        metavar="NAME",
    )
    evaluator_token: str = option(
        "evaluator.token-file",
        "",
        "ServiceAccount token to send to the evaluator; like the certificates, it is read for each stream, so it may rotate",
        metavar="FILE",
    )
    poll_interval: float = option(
        "stream.poll-interval",
        0.1,
        "how often to check whether a *.prom file changed",
        metavar="DURATION",
        parse=durations.duration,
    )
    disable_defaults: bool = option(
        "collector.disable-defaults",
        False,
        "disable all collectors that are not enabled by a flag of their own",
    )
    collector_timeout: float = option(
        "collector.timeout",
        5.0,
        "timeout of a collector; one that exceeds it counts as failed, and is not started again until it returns",
        metavar="DURATION",
        parse=durations.duration,
    )
    host: Host = field(default_factory=Host)
    """The node's name and the paths to read."""
    collectors: Mapping[str, Any] = field(default_factory=dict)
    """The enabled collectors, each with its options."""
    rules: RuleOptions = field(default_factory=RuleOptions)
    """Settings of recording rules."""
    without_effect: Sequence[str] = ()
    """Given flags that only node_exporter has."""


Switches: type[Any] = dataclasses.make_dataclass(
    "Switches",
    [
        (f"collector_{name}", bool, option(f"collector.{name}", entry.on, f"collect {entry.about}"))
        for name, entry in COLLECTORS.items()
    ],
    frozen=True,
)
"""One switch per collector."""

GROUPS: Mapping[str, tuple[type[Any], ...]] = {
    "agent": (Settings,),
    "rules": (RuleOptions,),
    "node": (Host,),
    "collectors": (Switches, *(entry.options for entry in COLLECTORS.values())),
}
"""The classes whose fields are flags, by heading in --help and the docs."""


def parse(argv: Sequence[str], env: Mapping[str, str], *, hostname: str) -> Settings:
    """Return settings from flags, else the environment, else defaults. Exits with status 2 on a mistake."""
    parser = Parser(
        PROGRAM,
        about=_ABOUT,
        examples=_EXAMPLES,
        usage=f"{PROGRAM} [flags]",
        commands=COMMANDS,
        reads_files=True,
    ).with_version()
    add_flags(parser)
    return settings_of(parser, parser.parse_args(argv), env, hostname=hostname)


def settings_of(
    parser: Parser, namespace: argparse.Namespace, env: Mapping[str, str], *, hostname: str
) -> Settings:
    """Return settings from the namespace of a parser with the agent's flags. Exits with status 2 on a mistake."""

    def read(settings: type[Any]) -> Any:
        return flags.from_namespace(settings, parser, namespace, env=env)

    settings, host = read(Settings), read(Host)
    switches = read(Switches)
    # Flags of disabled collectors are checked too, so that a mistake shows at once and not when the collector is
    # enabled.
    collectors = {name: read(entry.options) for name, entry in COLLECTORS.items()}
    enabled = {
        name: chosen
        for name, chosen in collectors.items()
        if getattr(switches, f"collector_{name}")
        and not (settings.disable_defaults and getattr(namespace, f"collector_{name}") is None)
    }
    for flag, seconds in (
        ("stream.poll-interval", settings.poll_interval),
        ("collector.timeout", settings.collector_timeout),
    ):
        if seconds == 0:
            parser.error(f"--{flag}: must be longer than 0")
    if mistake := _stream_mistake(settings):
        parser.error(mistake)
    host = dataclasses.replace(host, name=host.name or hostname)
    rules = read(RuleOptions)
    complete: Settings = dataclasses.replace(
        settings,
        host=host,
        collectors=enabled,
        rules=rules,
        without_effect=namespace.without_effect or (),
    )
    return complete


def _stream_mistake(settings: Settings) -> str:
    """Return the mistake in the combination of the stream's flags; empty if there is none."""
    if bool(settings.evaluator_cert) != bool(settings.evaluator_key):
        return "--evaluator.tls.cert-file and --evaluator.tls.key-file belong together"
    shown = settings.evaluator_cert or settings.evaluator_token or settings.evaluator_server_name
    if shown and not settings.evaluator_ca:
        return (
            "--evaluator.tls.ca-file is missing: without it, certificate and token could be sent to another server, and a token "
            "in plain text can be read on the network"
        )
    return ""


def add_flags(parser: Parser, *, hidden: bool = False) -> None:
    """Add all flags to a parser, grouped by headings, or hidden from --help."""
    for title, classes in GROUPS.items():
        group = parser.add_argument_group(title)
        for settings in classes:
            flags.add_options(group, settings, hidden=hidden)  # type: ignore[arg-type]  # a group adds arguments as a parser does
    _add_node_exporter_flags(parser)


class _WithoutEffect(argparse.Action):
    """Records the name of a flag, without its value."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        _values: object,
        option_string: str | None = None,
    ) -> None:
        given = [*(getattr(namespace, self.dest) or ()), option_string]
        setattr(namespace, self.dest, list(dict.fromkeys(given)))


def _add_node_exporter_flags(parser: Parser) -> None:
    """Add former names of flags, and flags without an effect here, so that any command line of node_exporter is accepted."""
    fields = {
        opt.flag: field.name
        for classes in GROUPS.values()
        for settings in classes
        for field, opt in flags.options(settings)
    }
    for former, today in node_exporter.RENAMED.items():
        if field := fields.get(today):  # the flag's collector may be deleted
            parser.add_argument(f"--{former}", f"-{former}", dest=field, help=argparse.SUPPRESS)
    for name, is_switch in node_exporter.IGNORED.items():
        parser.add_argument(
            *(f"--{name}", f"-{name}"),
            dest="without_effect",
            nargs="?" if is_switch else None,
            action=_WithoutEffect,
            help=argparse.SUPPRESS,
        )
        if is_switch:
            parser.add_argument(
                f"--no-{name}",
                dest="without_effect",
                nargs=0,
                action=_WithoutEffect,
                help=argparse.SUPPRESS,
            )
