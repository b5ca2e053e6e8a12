"""The flags of metric sources and their combinations."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser

PROMETHEUS = ("--metricsSource=prometheus", "--prometheusUrl=http://prom:9090")


def parse(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})


@pytest.mark.parametrize(
    ("argv", "sources"),
    [
        ([], ("agents",)),
        (["--metricsSource=custom-metrics"], ("custom-metrics",)),
        (["-metricsSource=custom-metrics,agents"], ("custom-metrics", "agents")),
        (["--metricsSource", "prometheus, agents"], ("prometheus", "agents")),
        (["--metricsSource=agents", "--metricsSource=prometheus"], ("agents", "prometheus")),
    ],
)
def test_sources_are_in_the_given_order(argv, sources):
    assert parse(*argv).sources == sources


@pytest.mark.parametrize(
    "argv",
    [
        PROMETHEUS,
        (*PROMETHEUS, "--prometheusUser=jo", "--prometheusPasswordFile=/p"),
        (
            *PROMETHEUS,
            "--prometheusTokenFile=/t",
            "--prometheusCacert=/c",
            "--prometheusQueries=/q",
        ),
        ("--metricsSource=custom-metrics", "--sourceTimeout=500ms"),
    ],
)
def test_compatible_flags_are_accepted(argv):
    assert parse(*argv).mistakes() == []


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--metricsSource=agents,agents"], "--metricsSource names a source twice"),
        (["--metricsSource=prometheus"], "--metricsSource=prometheus needs --prometheusUrl"),
        (
            ["--prometheusUrl=http://x"],
            "--prometheusUrl is given, but --metricsSource does not name prometheus",
        ),
        (
            [*PROMETHEUS, "--prometheusUser=jo"],
            "--prometheusUser and --prometheusPasswordFile belong together",
        ),
        (
            [
                *PROMETHEUS,
                "--prometheusUser=j",
                "--prometheusPasswordFile=/p",
                "--prometheusTokenFile=/t",
            ],
            "--prometheusUser and --prometheusTokenFile exclude each other",
        ),
        (["--sourceTimeout=0"], "--sourceTimeout must be more than 0"),
    ],
)
def test_incompatible_flags_are_rejected(argv, sentence):
    assert parse(*argv).mistakes() == [sentence]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--metricsSource=influx"], "'influx' is not one of agents, custom-metrics, prometheus"),
        (["--metricsSource="], "'' is not one of agents"),
        (["--metricsSource=agents,"], "'' is not one of agents"),
        (["--prometheusUrl=prom:9090"], "not an http or https URL: write it like"),
        (["--prometheusUrl=http://jo:geheim/"], "not an http or https URL"),
        (["--prometheusUrl=htp://jo:geheim@prom"], "not an http or https URL"),
        (["--prometheusUrl=http://jo:geheim@[::1"], "not an http or https URL"),
        (["--prometheusUrl=http://"], "not an http or https URL"),
        (["--prometheusUrl=http://jo:geheim@prom"], "the URL must not have a user"),
        (
            ["--prometheusUrl=http://prom/?x=1"],
            "the URL must not have a user, a query or a fragment",
        ),
        (["--prometheusUrl=http://[prom"], "--prometheusUrl: "),
        (["--prometheusUrl=http://prom:web"], "--prometheusUrl: "),
        (["--sourceTimeout=5"], "--sourceTimeout: not a duration"),
    ],
)
def test_mistake_exits_with_status_2_and_one_sentence(capsys, argv, sentence):
    with pytest.raises(SystemExit) as ended:
        parse(*argv)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "geheim" not in said


def test_headers_of_prometheus_are_repeatable():
    found = parse(*PROMETHEUS, "--prometheusHeader=X-Scope-OrgID: a|b", "--prometheusHeader=X-A:")
    assert found.prometheus_headers == (("X-Scope-OrgID", "a|b"), ("X-A", ""))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("X-Scope-OrgID", "not a header: write it like 'X-Scope-OrgID: tenant'"),
        ("X Y: 1", "not a header"),
        ("X: 1\r\nY: 2", "not a header"),
        ("authorization: Bearer x", "use --prometheusTokenFile or --prometheusUser"),
    ],
)
def test_invalid_headers_are_rejected(header, message, capsys):
    with pytest.raises(SystemExit):
        parse(*PROMETHEUS, f"--prometheusHeader={header}")
    assert message in capsys.readouterr().err
