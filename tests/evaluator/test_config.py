"""The evaluator's flags: those of Telemetry Aware Scheduling, our own, and their combinations."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def parse(*argv, env=None):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env=env or {})


def test_defaults_are_those_of_tas():
    settings = parse()
    assert settings.mistakes() == []
    assert (settings.port, settings.sync_period, settings.unsafe) == (9001, 5.0, False)
    assert settings.cert == "/etc/kubernetes/pki/ca.crt"
    assert settings.key == "/etc/kubernetes/pki/ca.key"
    assert settings.cacert == "/etc/kubernetes/pki/ca.crt"
    assert (settings.agent_port, settings.ops_port) == (9091, 8080)


def test_tas_command_line_is_accepted():
    one = ("-kubeConfig=/k", "-port=9002", "-cert=/c", "-key=/y", "-cacert=/a", "-syncPeriod=2s")
    two = tuple(f"-{flag}" for flag in one)
    for argv in (one, two):
        settings = parse(*argv, "--cachePort", "8111", "--unsafe=true", "--v=4", "-v=2")
        assert settings.kube_config == "/k"
        assert (settings.port, settings.sync_period) == (9002, 2.0)
        assert (settings.cert, settings.key, settings.cacert) == ("/c", "/y", "/a")
        assert (settings.unsafe, settings.v, settings.cache_port) == (True, 2, 8111)


def test_kubeconfig_is_read_from_the_environment_too():
    assert parse(env={"KUBECONFIG": "/e"}).kube_config == "/e"
    assert parse("--kubeConfig=/f", env={"KUBECONFIG": "/e"}).kube_config == "/f"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--port=web"], "--port: not a port: 'web'"),
        (["--port=70000"], "--port: not a port: '70000'"),
        (["--syncPeriod=5"], "--syncPeriod: not a duration: '5'"),
        (["--staleAfter=soon"], "--staleAfter: not a duration"),
        (["--unsafe=perhaps"], "--unsafe: not a boolean: 'perhaps'"),
        (["--kubeQPS=0"], "--kubeQPS: not a number above 0: '0'"),
        (["--kubeQPS=nan"], "--kubeQPS: not a number above 0: 'nan'"),
        (["--v=x"], "--v: not a verbosity: 'x'"),
        (["--log.level=loud"], "--log.level: 'loud' is not one of debug, info, warn, error"),
        (["--log.format=xml"], "--log.format: 'xml' is not one of logfmt, json"),
        (["--nonsense"], "--nonsense"),
        (["--por=1"], "--por=1"),
        (["stray"], "stray"),
        (["--port"], "expected one argument"),
    ],
)
def test_mistake_exits_with_status_2_and_one_sentence(capsys, argv, sentence):
    with pytest.raises(SystemExit) as ended:
        parse(*argv)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("prog: ")
    assert sentence in line


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--syncPeriod=0"], "--syncPeriod must be more than 0"),
        (["--syncPeriod=20s"], "--staleAfter must be at least twice --syncPeriod"),
        (["--staleAfter=9s"], "--staleAfter must be at least twice --syncPeriod"),
        (["--leaseDuration=12500ms"], "--leaseDuration must be whole seconds"),
        (["--leaseDuration=8s"], "--renewDeadline must be less than --leaseDuration"),
        (["--retryPeriod=0"], "--retryPeriod must be more than 0"),
        (["--retryPeriod=5s"], "at most half of --renewDeadline"),
        (["--agentCert=c"], "--agentCert and --agentKey belong together"),
        (["--agentUnsafe", "--agentCert=c", "--agentKey=k"], "contradict each other"),
        (["--unsafe", "--agentIdentity=token"], "--agentIdentity=token needs TLS"),
        (["--agentUnsafe", "--agentIdentity=token"], "--agentIdentity=token needs TLS"),
    ],
)
def test_incompatible_settings_are_rejected(argv, sentence):
    (mistake,) = parse(*argv).mistakes()
    assert sentence in mistake


@pytest.mark.parametrize(
    ("argv", "plain"),
    [
        ([], False),
        (["--unsafe"], True),
        (["--agentUnsafe"], True),
        (["--unsafe", "--agentCert=c", "--agentKey=k"], False),
        (["--agentIdentity=token"], False),
    ],
)
def test_agents_stream_in_plain_text_only_with_a_flag(argv, plain):
    settings = parse(*argv)
    assert settings.mistakes() == []
    assert settings.agents_plain is plain


@pytest.mark.parametrize("text", ["agent", "/agent", "a/", "a/b/c", "a:b/c", "a/b:c"])
def test_service_account_needs_namespace_and_name(capsys, text):
    with pytest.raises(SystemExit):
        parse(f"--agentServiceAccount={text}")
    assert "not a ServiceAccount" in capsys.readouterr().err


def test_smallest_valid_combination_is_accepted():
    assert parse("--syncPeriod=1ms", "--staleAfter=2ms").mistakes() == []


@pytest.mark.parametrize("word", ["--help", "-help", "-h"])
def test_help_is_printed_for_each_spelling(capsys, word):
    with pytest.raises(SystemExit) as ended:
        parse(word)
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for flag in ("--kubeConfig=FILE", "--[no-]unsafe", "--staleAfter=DURATION", "(default 30s)"):
        assert flag in text


def test_default_failover_takes_at_most_fifteen_seconds():
    """A renewal is noticed a retry late and counts for a whole duration; the rest is for the first write."""
    settings = parse()
    assert settings.leader_elect
    assert settings.lease_duration + settings.retry_period <= 14
    assert settings.lease_duration - settings.renew_deadline >= 2 * settings.retry_period
