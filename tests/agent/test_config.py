import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent import config
from agent.config import GROUPS, Settings
from collectors.registry import COLLECTORS
from plimsoll.flags import options
from plimsoll.http.addresses import Address

DEFAULTS = {name for name, entry in COLLECTORS.items() if entry.on}


def parse(*argv: str, env: Mapping[str, str] | None = None) -> Settings:
    return config.parse(argv, env or {}, hostname="this-host")


def test_defaults_are_those_of_node_exporter() -> None:
    settings = parse()
    assert [str(address) for address in settings.listen_addresses] == [":9100"]
    assert settings.telemetry_path == "/metrics"
    assert settings.host.procfs == Path("/proc")
    assert settings.host.sysfs == Path("/sys")
    assert settings.host.udev == Path("/run/udev/data")
    assert settings.collectors.keys() == DEFAULTS
    assert "synthetic" not in settings.collectors
    assert settings.evaluator_address == "", "nothing is streamed by default"
    assert settings.poll_interval == 0.1


def test_node_name_is_from_flag_environment_or_hostname() -> None:
    assert parse("--node.name=a", env={"NODE_NAME": "b"}).host.name == "a"
    assert parse(env={"NODE_NAME": "b"}).host.name == "b"
    assert parse(env={"NODE_NAME": ""}).host.name == "this-host"


def test_flags_may_be_repeated_and_have_one_dash() -> None:
    settings = parse(
        "--web.listen-address=127.0.0.1:1",
        "-web.listen-address",
        "[::1]:2",
        "--collector.textfile.directory=/a",
        "--collector.textfile.directory=/b*",
    )
    assert settings.listen_addresses == (Address("127.0.0.1", 1), Address("::1", 2))
    assert settings.collectors["textfile"].textfile_directories == ("/a", "/b*")


def test_collectors_can_be_enabled_and_disabled() -> None:
    assert parse("--no-collector.cpu").collectors.keys() == DEFAULTS - {"cpu"}
    assert parse("--collector.cpu=false").collectors.keys() == DEFAULTS - {"cpu"}
    assert parse("--collector.synthetic").collectors.keys() == DEFAULTS | {"synthetic"}


def test_only_enabled_collectors_survive_disable_defaults() -> None:
    assert parse("--collector.disable-defaults").collectors == {}
    chosen = parse("--collector.disable-defaults", "--collector.cpu", "--collector.loadavg")
    assert chosen.collectors.keys() == {"cpu", "loadavg"}
    assert parse("--collector.disable-defaults", "--no-collector.cpu").collectors == {}


def test_collector_options_reach_the_collector() -> None:
    settings = parse("--no-collector.cpu.guest", "--collector.vmstat.fields=^oom")
    assert settings.collectors["cpu"].cpu_guest is False
    assert settings.collectors["vmstat"].vmstat_fields == "^oom"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--web.listen-address=9100"], "--web.listen-address: not an address: '9100'"),
        (["--web.telemetry-path=metrics"], "--web.telemetry-path: not a path for metrics"),
        (["--web.telemetry-path=/healthz"], "--web.telemetry-path: not a path for metrics"),
        (["--log.level=loud"], "--log.level: 'loud' is not one of debug, info, warn, error"),
        (["--stream.poll-interval=0"], "--stream.poll-interval: must be longer than 0"),
        (["--web.max-requests=many"], "--web.max-requests: not a number"),
        (["--rules.interval=500ms"], "--rules.interval: '500ms' is below the minimum of 1s"),
        (["--rules.interval=soon"], "--rules.interval: not a duration"),
        (["--rules.max-memory=0"], "--rules.max-memory: not a size"),
        (["--rules.notable-change=2"], "--rules.notable-change: '2' is not a number from 0 to 1"),
        (
            ["--rules.notable-change=nan"],
            "--rules.notable-change: 'nan' is not a number from 0 to 1",
        ),
        (["--collector.timeout=0s"], "--collector.timeout: must be longer than 0"),
        (["--stream.poll-interval=fast"], "--stream.poll-interval: not a duration"),
        (["--evaluator.address=:9091"], "--evaluator.address: not an address to connect to"),
        (["--collector.netdev.device-exclude=(?=x)"], "--collector.netdev.device-exclude: invalid"),
        (["--collector.vmstat.fields=("], "--collector.vmstat.fields: invalid regular expression"),
        (
            ["--collector.synthetic.metrics=-1"],
            "--collector.synthetic.metrics: not a number of metrics",
        ),
        (["--collector.synthetic.name=a-b"], "--collector.synthetic.name: not a metric name"),
        (["--collector.cpu=maybe"], "--collector.cpu: not a boolean"),
        (["--collector.nothing"], "unrecognized arguments: --collector.nothing"),
        (["--collector.cp"], "unrecognized arguments: --collector.cp"),
        (["serve"], "unrecognized arguments: serve"),
        (
            ["--evaluator.tls.ca-file=ca", "--evaluator.tls.cert-file=c"],
            "--evaluator.tls.cert-file and --evaluator.tls.key-file belong together",
        ),
        (["--evaluator.token-file=t"], "--evaluator.tls.ca-file is missing"),
        (
            ["--evaluator.tls.cert-file=c", "--evaluator.tls.key-file=k"],
            "--evaluator.tls.ca-file is missing",
        ),
        (["--evaluator.tls.server-name=e"], "--evaluator.tls.ca-file is missing"),
    ],
)
def test_mistake_exits_with_status_2_and_one_sentence(argv, sentence, capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(*argv)
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"plimsoll-agent: {sentence}")
    assert said.count("\n") == 1


def test_help_names_every_flag_and_gives_examples(capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse("--help")
    assert exit_.value.code == 0
    said = capsys.readouterr().out
    for classes in GROUPS.values():
        for settings in classes:
            for _, option in options(settings):
                assert option.flag in said
                assert len(option.help) > 10, option.flag
    assert "default ^(oom_kill|pgpg|pswp|pg.*fault).*" in " ".join(said.split())
    assert "examples:" in said


def test_version_is_printed(capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse("--version")
    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith("plimsoll-agent ")


def test_setting_names_are_unique() -> None:
    """They share one namespace, in which later ones would silently win."""
    names = [
        field.name
        for classes in GROUPS.values()
        for settings in dict.fromkeys(classes)
        for field, _ in options(settings)
    ]
    assert len(names) == len(set(names))


def test_settings_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse().telemetry_path = "/x"  # type: ignore[misc]
