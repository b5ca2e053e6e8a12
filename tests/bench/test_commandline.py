"""The flags of a benchmark are its parameters, and each of its lines is judged by its aim."""

import json

import pytest

from bench import commandline


@pytest.fixture
def call(capsys):
    """Run a benchmark with flags, and return the printed lines."""

    def call(lines, *flags):
        commandline.run(lines, flags)
        return [json.loads(text) for text in capsys.readouterr().out.splitlines()]

    return call


def sizes(nodes=5000, share=0.5, only=("a", "b"), path=None, *, warm_up=False):
    yield {"nodes": nodes, "share": share, "only": only, "path": path, "warm_up": warm_up}


def test_parameters_without_flags_have_their_defaults(call):
    [line] = call(sizes)
    expected = {"nodes": 5000, "share": 0.5, "only": ["a", "b"], "path": None, "warm_up": False}
    assert line == expected


def test_flags_have_the_types_of_the_defaults(call):
    flags = ("--nodes=3", "--share=1", "--only=c,d", "--path=x", "--warm-up")
    [line] = call(sizes, *flags)
    assert line == {"nodes": 3, "share": 1.0, "only": ["c", "d"], "path": "x", "warm_up": True}


def test_numbers_are_listed_with_commas(call):
    def counted(nodes=(1, 2)):
        yield {"nodes": nodes}

    assert call(counted, "--nodes=7") == [{"nodes": [7]}]


def test_parameter_without_a_default_is_required(call, capsys):
    def compared(peer):
        yield {"peer": peer}

    with pytest.raises(SystemExit):
        call(compared)
    assert "--peer" in capsys.readouterr().err
    assert call(compared, "--peer=x") == [{"peer": "x"}]


def test_help_is_the_docstring_of_the_module(call, capsys):
    with pytest.raises(SystemExit):
        call(sizes, "--help")
    text = capsys.readouterr().out
    assert __doc__ in text
    assert "default 5000" in text


def test_lines_with_an_aim_are_judged(call):
    def quick(nodes=1):
        yield {"p50_ms": 3, "aim": "p50_ms <= 2"}
        yield {"p50_ms": 3, "aim": ""}

    judged, plain = call(quick)
    assert (judged["aim"], judged["met"]) == ("p50_ms <= 2", False)
    assert plain == {"p50_ms": 3}


def test_asynchronous_benchmarks_print_their_lines(call):
    async def awaited(nodes=1):
        yield {"nodes": nodes}

    assert call(awaited) == [{"nodes": 1}]
