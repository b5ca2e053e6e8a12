"""Go-style flags from a dataclass: accepted spellings and error messages."""

import argparse
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll import durations, flags
from plimsoll.flags import option


@dataclass(frozen=True)
class Settings:
    name: str = option("name", "", "who", env="T_NAME", metavar="NAME")
    period: float = option("syncPeriod", 5.0, "how often", metavar="D", parse=durations.duration)
    port: int = option("port", 9001, "where", env="T_PORT", metavar="PORT", parse=flags.port)
    unsafe: bool = option("unsafe", False, "no TLS", env="T_UNSAFE")
    color: bool = option("color", True, "paint it")
    roots: tuple[str, ...] = option("root", ("/a",), "where to look", env="T_ROOTS", metavar="DIR")
    fmt: str = option("fmt", "logfmt", "100% of lines", parse=flags.choice("logfmt", "json"))


def parse(*argv, env=None):
    parser = argparse.ArgumentParser("prog", allow_abbrev=False)
    return flags.parse_settings(Settings, parser, argv=argv, env=env or {})


@pytest.fixture
def refusal(capsys):
    """The last line of the usage error, which must exit with status 2."""

    def read(*argv, env=None):
        with pytest.raises(SystemExit) as ended:
            parse(*argv, env=env)
        assert ended.value.code == 2
        return capsys.readouterr().err.splitlines()[-1]

    return read


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("5s", 5.0),
        ("250ms", 0.25),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1h1m1s1ms", 3661.001),
        ("100us", 1e-4),
        ("100µs", 1e-4),
        ("10ns", 1e-8),
    ],
)
def test_durations_are_parsed_as_by_go(text, seconds):
    assert durations.duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    ["", "5", "s", "5 s", "-5s", "5x", "5s!", "1m 30s", "1e3s", "٣s", "s5", "5S", "9" * 400 + "s"],
)
def test_invalid_duration_is_rejected_with_an_example(text):
    with pytest.raises(ValueError, match=r"not a duration.*500ms, 5s or 1m30s"):
        durations.duration(text)


@given(st.integers(0, 10**6))
def test_printed_duration_is_parsed_to_the_same_value(milliseconds):
    seconds = milliseconds / 1000
    assert durations.duration(durations.format_duration(seconds)) == pytest.approx(
        seconds, rel=1e-4
    )


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("T", True), ("1", True), ("False", False), ("f", False)]
)
def test_booleans_are_parsed_as_by_go(text, value):
    assert flags.boolean(text) is value


@pytest.mark.parametrize("text", ["yes", "", "2", "tRUE", " true"])
def test_invalid_boolean_is_rejected(text):
    with pytest.raises(ValueError, match="true or false"):
        flags.boolean(text)


@pytest.mark.parametrize("text", ["0", "9001", "65535"])
def test_ports_are_parsed(text):
    assert flags.port(text) == int(text)


@pytest.mark.parametrize("text", ["", "-1", "65536", "http", "80.0", "٣", "8 0", "0x50"])
def test_invalid_port_is_rejected(text):
    with pytest.raises(ValueError, match="a number from 0 to 65535"):
        flags.port(text)


def test_missing_flags_have_defaults():
    assert parse() == Settings()


@pytest.mark.parametrize(
    "argv",
    [("--port=1", "--unsafe"), ("-port=1", "-unsafe"), ("-port", "1", "-unsafe=true")],
    ids=" ".join,
)
def test_one_or_two_dashes_with_or_without_an_equals_sign_are_accepted(argv):
    settings = parse(*argv)
    assert (settings.port, settings.unsafe) == (1, True)


@pytest.mark.parametrize(
    ("argv", "color"),
    [((), True), (("--no-color",), False), (("--color=false",), False), (("--color",), True)],
)
def test_switches_are_parsed(argv, color):
    assert parse(*argv).color is color


def test_last_of_two_switches_counts():
    assert parse("--no-color", "--color").color is True
    assert parse("--color", "--no-color").color is False


def test_repeatable_flag_replaces_its_default():
    assert parse("--root=/x", "-root", "/y").roots == ("/x", "/y")


def test_flag_overrides_environment_overrides_default():
    env = {"T_PORT": "7", "T_NAME": "from-env", "T_UNSAFE": "true", "T_ROOTS": "/e"}
    assert parse(env=env) == Settings(port=7, name="from-env", unsafe=True, roots=("/e",))
    assert parse("--port=8", "--unsafe=false", env=env).port == 8
    assert parse("--unsafe=false", env=env).unsafe is False


def test_empty_variable_counts_as_unset():
    assert parse(env={"T_PORT": "", "T_UNSAFE": ""}) == Settings()


def test_mistake_names_the_flag_and_valid_values(refusal):
    assert refusal("--port=http") == (
        "prog: error: --port: not a port: 'http' (a number from 0 to 65535)"
    )
    assert "--syncPeriod: not a duration: '5'" in refusal("--syncPeriod", "5")
    assert "--unsafe: not a boolean: 'maybe'" in refusal("--unsafe=maybe")
    assert "--fmt: 'xml' is not one of logfmt, json" in refusal("--fmt=xml")


def test_mistake_in_the_environment_names_the_variable(refusal):
    assert refusal(env={"T_PORT": "x"}).startswith("prog: error: $T_PORT: not a port")


def test_unknown_and_abbreviated_flags_are_rejected(refusal):
    assert "--nonsense" in refusal("--nonsense")
    assert "--por=1" in refusal("--por=1")
    assert "stray" in refusal("stray")


def test_help_names_each_flag_its_default_and_variable(capsys):
    with pytest.raises(SystemExit) as ended:
        parse("--help")
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "--syncPeriod D",
        "(default 5s)",
        "(default 9001, or $T_PORT)",
        "(default false, or $T_UNSAFE)",
        "100% of lines",
    ):
        assert words in text


def test_help_shows_durations_with_units_and_no_empty_defaults(capsys):
    @dataclass
    class Units:
        every: float = option("every", 15.0, "pause", metavar="DURATION", parse=float)
        names: frozenset[str] = option("names", frozenset(), "which; all by default")

    with pytest.raises(SystemExit):
        flags.parse_settings(Units, argparse.ArgumentParser("prog"), argv=["--help"], env={})
    text = " ".join(capsys.readouterr().out.split())
    assert "pause (default 15s)" in text
    assert text.endswith("which; all by default")


def test_options_lists_only_flag_fields():
    @dataclass
    class Mixed:
        shown: str = option("shown", "", "x")
        hidden: int = 3

    assert [opt.flag for _, opt in flags.options(Mixed)] == ["shown"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.1, "100ms"), (5.0, "5s"), (90.0, "1m30s"), (3600.0, "1h"), (3661.5, "1h1m1.5s")],
)
def test_durations_are_shown_as_by_go(seconds, text):
    assert durations.format_duration(seconds) == text
