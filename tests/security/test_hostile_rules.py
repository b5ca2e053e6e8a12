"""Hostile rule files: excess is rejected, and time and memory are linear in size."""

import contextlib
import re
import subprocess
import sys
import time

import pytest

from agent.rules.groups import dependencies, file
from agent.rules.groups.file import Group, Rule, RuleFileError
from agent.rules.groups.group import RunningGroup
from agent.rules.groups.tick import Tick
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import parse
from agent.rules.promql.labels import make
from agent.rules.promql.values import EvaluationError, Moment
from agent.rules.storage.exposition import MemoryStorage
from agent.rules.storage.shared_head import SharedHead
from plimsoll import strictyaml

pytestmark = pytest.mark.e2e

SECONDS = 30
"""Processor seconds per file; accepted files take a few, on a slow machine too."""
MEMORY = 1 << 30

READER = """
import gc, os, resource, sys
from pathlib import Path
from agent.rules.groups import dependencies
from agent.rules.files import RuleFileReader
seconds, memory, *paths = sys.argv[1:]
gc.freeze()
for path in paths:
    if not os.fork():
        break
    _, status = os.wait()
    Path(path + ".status").write_text(str(os.waitstatus_to_exitcode(status)))
else:
    sys.exit()
sys.stderr = open(path + ".stderr", "w")
resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
files = RuleFileReader([path])
said = files.look()
dependencies.ordered(said.groups)
words = len(said.groups), sum(len(group.rules) for group in said.groups), *(e.text for e in files.errors.values())
Path(path + ".said").write_text(" ".join(map(str, words)))
sys.stderr.flush()
os._exit(0)
"""
"""Reads each file in a fork of its own: importing takes longer than reading most of them."""


def rules(count, text):
    return f"groups: [{{name: g, rules: [{','.join([text] * count)}]}}]"


def bomb(wide, deep):
    """Nested lists of ten lists each, written in a few lines."""
    lines = [
        "x0: &x0 [y]",
        *(f"x{i}: &x{i} [{','.join([f'*x{i - 1}'] * wide)}]" for i in range(1, deep)),
    ]
    return "\n".join([*lines, f"groups: *x{deep - 1}"])


def chained(count):
    """Groups that each read the one before."""
    return "groups:\n" + "".join(
        f"- {{name: g{i}, rules: [{{record: r{i}, expr: r{i - 1}}}]}}\n" for i in range(count)
    )


def entangled(count):
    """Groups that each read all."""
    rule = "{{record: r{0}, expr: '{{__name__=~\"r.*|{0}\"}}'}}"
    return "groups:\n" + "".join(
        f"- {{name: g{i}, rules: [{rule.format(i)}]}}\n" for i in range(count)
    )


FILES = {
    "brackets": ("[" * 250_000, "0 0 nested too deeply"),
    "braces": ("{a: " * 60_000, "0 0 nested too deeply"),
    "dashes": ("- " * 120_000, "0 0 nested too deeply"),
    "bomb": (bomb(10, 40), "0 0 "),
    "itself": ("groups: &a [*a]", "0 0 line 1, column 9: "),
    "groups": ("groups: [" + "{name: a}," * 5_000 + "]", "0 0 the file has more than 500 groups"),
    "rules": (rules(10_001, "{record: r,expr: a}"), "0 0 the file has more than 10000 rules"),
    "many": (rules(9_999, "{record: r,expr: a}"), "1 9999"),
    "large": ("#" * (1 << 20), "0 0 is larger than "),
    "chained": (chained(500), "500 500"),
    "entangled": (entangled(500), "500 500"),
    "long": (rules(1, "{record: r, expr: '" + "a+" * 100_000 + "a'}"), "1 0"),
    "deep": (rules(20, "{record: r, expr: '" + "(" * 5_000 + "1" + ")" * 5_000 + "'}"), "1 0"),
    "costly": (rules(100, "{record: r, expr: '" + "a+" * 99 + "a'}"), "1 100"),
    "label": (rules(1, f"{{record: r, expr: a, labels: {{x: {'y' * 4097}}}}}"), "1 0"),
    "label name": (rules(1, f"{{record: r, expr: a, labels: {{? {'x' * 4097} : y}}}}"), "1 0"),
    "name": (rules(1, f"{{record: {'r' * 4097}, expr: a}}"), "1 0"),
    "number": (f"groups: [{{name: a, limit: {'9' * 100_000}, interval: {'9' * 100_000}s}}]", "0 0"),
    "python": ("groups: !!python/object/apply:os.abort []", "0 0"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Exit status, tracebacks and what was read, by name of file."""
    paths = {name: tmp_path_factory.mktemp("files") / "rules.yaml" for name in FILES}
    for name, (text, _) in FILES.items():
        paths[name].write_text(text)
    limits = str(SECONDS), str(MEMORY)
    subprocess.run([sys.executable, "-P", "-c", READER, *limits, *paths.values()], check=True)

    def written(path, what):
        file = path.with_name(f"{path.name}.{what}")
        return file.read_text() if file.exists() else ""

    outputs = ("status", "stderr", "said")
    return {name: [written(path, what) for what in outputs] for name, path in paths.items()}


@pytest.mark.parametrize("name", FILES)
def test_file_is_read_or_rejected_in_time(results, name):
    status, stderr, said = results[name]
    assert status == "0", stderr
    assert said.startswith(FILES[name][1])


NOW = 1_700_000_000_000


def moment():
    labels = make({"__name__": "a", "x": "a" * 200}.items())
    return Moment(
        MemoryStorage({labels: [(NOW - 1000 * i, float(i)) for i in range(300, -1, -1)]}), NOW
    )


@pytest.mark.parametrize(
    "text",
    [
        "max_over_time(a[1000d:1ms])",
        "max_over_time(max_over_time(a[1d:10s])[1d:10s])",
        "(" * 2_000 + "a" + ")" * 2_000,
        "-" * 2_000 + "a",
        "sum(" * 400 + "a" + ")" * 400,
        "a" + "+a" * 400,
        "a[9999999y]",
        "a offset 99999999999999999y",
        'a{x=~"(a{1000}){1000}b"}',
        'a{x=~"((a{1,1000}){1,1000}){1,1000}b"}',
    ],
)
def test_oversized_expression_is_rejected_when_parsed(text):
    with pytest.raises(ExpressionError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        'a{x=~"(a+)+b"}',
        'a{x=~"(a|aa)*b"}',
        f'a{{x=~"{"a*" * 14}b"}}',
        f'a{{x=~"{"(a|aa){8}" * 6}b"}}',
        f'a{{x=~"{"(a{1,8}){1,8}" * 6}b"}}',
        'a{x=~"((a{1,8}){1,8}){1,8}b"}',
        'a{x=~".*a.*a.*a.*a.*b"}',
        'a{x=~"(.*)(.*)(.*)(.*)(.*)(.*)b"}',
    ],
)
def test_matching_is_linear_in_the_longest_label(text):
    (matcher,) = parse(text).needs[0].selector.matchers
    assert not matcher("a" * 4096)


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 9_999,
        "'" * 19_999,
        "[" * 20_000,
        " " * 20_000,
        "offset" + " " * 19_000,
        "1" * 20_000,
        "=~ " * 6_000,
        "{" + ", " * 9_000,
        "#" * 20_000,
        "a{" + ",".join('x=~"([a-z]{40}){20}"' for _ in range(900)) + "}",
    ],
    ids=lambda text: text[:8],
)
def test_any_text_is_checked_in_linear_time(text):
    """Checking twelve such texts took 76 s; five times the processor time of 200 linear scans is far less."""
    begin = time.process_time()
    for _ in range(200):
        re.findall(r"[^\x00]", text)
    scans = time.process_time() - begin
    begin = time.process_time()
    with contextlib.suppress(ExpressionError):
        parse(text)
    assert time.process_time() - begin < 5 * scans


@pytest.mark.parametrize(
    "call", ['label_replace({},"y","$1$1$1$1","{}","(.*)")', 'label_join({0},"y","","{1}","{1}")']
)
def test_labels_do_not_double_without_bound(call):
    text = "a"
    for source in ("x", *["y"] * 20):
        text = call.format(text, source)
    with pytest.raises(EvaluationError, match="a label has more than"):
        parse(text).evaluate(moment())


def test_yaml_aliases_are_bounded_by_their_expansion():
    one = [{"record": "a", "expr": "a"}] * 200
    with pytest.raises(RuleFileError, match="more than 10000 rules"):
        file.read({"groups": [{"name": str(i), "rules": one} for i in range(51)]})
    assert strictyaml.load("a: &a [b]\nc: [*a, *a]") == {"a": ["b"], "c": [["b"], ["b"]]}


def test_rule_that_reads_its_own_result_stops_at_its_memory_limit():
    more = [f'label_replace(r, "y", "${{1}}{letter}", "y", "(.*)")' for letter in "ab"]
    rule = Rule("r", parse(" or ".join(["r", *more, "vector(1)"])))
    group = Group("g", (rule,))
    running = RunningGroup(group, lambda _: frozenset(), SharedHead())
    seen, errors = [], ()
    while not errors:
        outcome = running.tick(Tick(1000 * (len(seen) + 1), 0, 1000, {}, (), free=1 << 20))
        errors = outcome.errors
        seen.append(sum(map(len, outcome.results.values())))
    assert seen[:4] == [1, 3, 7, 15]
    assert len(seen) < 15
    assert errors[0].reason == "memory"


def test_cyclic_groups_are_ordered_once_each():
    made = [Group(f"g{i}", (Rule(f"r{i}", parse(f"r{(i + 1) % 50}")),)) for i in range(50)]
    assert sorted(g.name for g in dependencies.ordered(made)) == sorted(g.name for g in made)
