"""What a hostile evaluator answers controls no terminal of the kubectl plugin, and ends it with a sentence, never a traceback."""

import contextlib
import json
import random

import pytest
import yaml

from headlamp import record
from kubectl_plimsoll import completion, history, pods, views
from kubectl_plimsoll import main as cli
from kubectl_plimsoll.table import Style

ESC, OVERRIDE = "\x1b]0;owned\x07\x1b[2J\n", "\u202e\u2066\u200f\ud800"
COLOURS = ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m")
COMMANDS = [
    ("status",),
    ("policies", "-A"),
    ("nodes",),
    ("nodes", "node-a"),
    ("explain", "pod", "shop/web-1"),
    ("explain", "policy", "shop/responsive"),
    ("explain", "gang", "shop/g"),
    ("history",),
    ("history", "node", "node-a"),
    ("top",),
]
OUTPUTS = [(), ("-o", "wide"), ("-o", "yaml"), ("-o", "json")]
VALUES = (
    None,
    True,
    -1,
    0,
    1e308,
    "x",
    ESC,
    OVERRIDE,
    [],
    [None],
    ["x"],
    [[1]],
    {},
    {"x": 1},
    {ESC: {ESC: [ESC]}},
)


def pages():
    """Pages of every kind, as recorded and with more parts."""
    answers = json.loads((record.RECORDED / "answers.json").read_text())
    found = [answer["body"] for path, answer in answers.items() if "/proxy/" in path]
    one = {"policy": "a/b", "enforcement": "enforce", "problems": ["p"], "warnings": ["w"]}
    one |= {"dontschedule": ["n"], "deschedule": [], "flapping": ["n"], "flappingMore": 1}
    more = {"policies": [one], "policiesMore": 2, "waitingFor": ["x"], "nodeCount": 3}
    more |= {"agentsPort": {"restarts": 2, "lastRestartSeconds": 3.5, "reason": "r"}}
    more |= {
        "nodes": {"n": {"violates": {"a/b": ["dontschedule"]}, "labels": {"k": "v"}}},
        "nodesMore": 4,
    }
    row = {
        "name": "n",
        "now": "violated",
        "transitions": 2,
        "violatedShare": 0.5,
        "runs": [[0, 1, "violated"]],
    }
    line = {
        "columns": 60,
        "rows": [row],
        "rowsMore": 7,
        "since": "2026-11-20T09:15:04Z",
        "until": "x",
    }
    log = {
        "at": "2026-11-20T09:15:04Z",
        "kind": "violated",
        "node": "n",
        "policy": "a/b",
        "text": "t",
    }
    member = {"state": "held", "node": None, "gates": ["g"]}
    gang = {
        "gang": "a/g",
        "state": "held",
        "message": "m",
        "problems": ["p"],
        "members": {"p": member},
    }
    return [*found, more, {"timeline": line}, {"records": [log], "window": {"found": 9}}, gang]


def replaced(page, rng):
    """A page in which one random value, or key, is another."""
    copy = json.loads(json.dumps(page))
    places = []

    def walk(value):
        if isinstance(value, (dict, list)):
            for key in value if isinstance(value, dict) else range(len(value)):
                places.append((value, key))
                walk(value[key])

    walk(copy)
    if not places or rng.random() < 0.02:
        return rng.choice(VALUES)
    parent, key = rng.choice(places)
    if isinstance(parent, dict) and rng.random() < 0.3:
        parent[rng.choice((ESC, OVERRIDE, "x"))] = parent.pop(key)
    else:
        parent[key] = rng.choice(VALUES)
    return copy


def hostile(value):
    """A page in which every text has control characters, as the types stay."""
    if isinstance(value, dict):
        return {key: hostile(one) for key, one in value.items()} | {ESC: ESC}
    if isinstance(value, list):
        return [*map(hostile, value)]
    return f"{value}{ESC}{OVERRIDE}" if isinstance(value, str) else value


def is_safe(text):
    for colour in COLOURS:
        text = text.replace(colour, "")
    return all(line.isprintable() for line in text.split("\n"))


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys):
    """Run the plugin on a page that kubectl prints; return the exit status, the output and the errors."""
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\nexec cat "{tmp_path}/page"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def run(page, *words):
        (tmp_path / "page").write_text(json.dumps(page))
        try:
            status = cli.main(words)
        except SystemExit as ended:
            status = ended.code
        out, err = capsys.readouterr()
        return status, out, err

    run.complete = lambda page, *words: ((tmp_path / "page").write_text(json.dumps(page)), completion.main(words), capsys.readouterr().out)[2]  # fmt: skip
    return run


@pytest.mark.parametrize("page", range(len(pages())))
def test_texts_of_a_page_control_no_terminal(answer, page):
    bad = hostile(pages()[page])
    for output in OUTPUTS:
        for words in COMMANDS:
            _, out, err = answer(bad, *words, *output)
            assert is_safe(out), (words, output)
            assert is_safe(err), (words, output)
            if output == ("-o", "yaml") and not err:
                assert yaml.safe_load(out)


@pytest.mark.parametrize("seed", range(4))
def test_malformed_page_is_a_sentence(answer, seed):
    rng, known = random.Random(seed), pages()
    for _ in range(60):
        page = replaced(rng.choice(known), rng)
        words = rng.choice(COMMANDS)
        status, out, err = answer(page, *words, *rng.choice(OUTPUTS))
        assert is_safe(out), (page, words)
        assert is_safe(err), (page, words)
        assert status in {0, 1, 2}
        assert not (status == 2 and not out and not err), (page, words)
        assert len(err.splitlines()) <= 1, err


def row(**fields):
    return {"name": ESC, "now": ESC, "transitions": ESC, "violatedShare": 0.5, "runs": []} | fields


FIELDS = [
    (history.top, {"timeline": {"columns": 60, "since": ESC, "until": ESC, "rows": [row()]}}),
    (history.top, {"timeline": {"columns": 60, "rowsMore": ESC, "rows": [row()]}}),
    (
        views.status,
        {"agentsPort": {"restarts": ESC, "lastRestartSeconds": 1, "reason": ESC}},
    ),
    (pods.pod, {"pod": ESC, "nodesMore": ESC}),
    (views.nodes, {"nodes": {ESC: {"violates": {ESC: [ESC]}, "labels": {ESC: ESC}}}}),
]


@pytest.mark.parametrize(("view", "page"), FIELDS)
def test_no_view_prints_control_characters(view, page):
    with contextlib.suppress(ValueError):  # a text in place of a number
        assert all(
            line.isprintable()
            for line in view({"turnedAwayByPlimsoll": True} | page, Style(), False)
        )


def test_names_that_control_a_terminal_are_not_proposed(answer):
    nodes = {"nodes": {"good": {}, ESC: {}, OVERRIDE: {}}}
    assert answer.complete(nodes, "nodes", "").splitlines() == ["good", ":4"]
    for page in ([], {"nodes": 3}, {"policies": [3]}, {"policies": [{"policy": 7}]}):
        for words in (("nodes", ""), ("explain", "policy", ""), ("policies", "-n", "")):
            assert answer.complete(page, *words) == ":4\n"
