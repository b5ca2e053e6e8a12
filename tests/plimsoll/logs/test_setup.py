"""Log lines in both formats: one line per event, for any values."""

import json
import re
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

PROGRAM = """
import logging, sys
from plimsoll import logs
logs.setup(sys.argv[1], sys.argv[2])
log = logs.get("test")
{}
"""


@pytest.fixture
def lines():
    """The stderr of a separate program: logging is set up once per process."""

    def run(code, fmt="logfmt", level="info"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM.format(code), level, fmt],
            capture_output=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == b""
        # What a terminal, journald or a container runtime treats as a line end.
        return re.split(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", done.stderr.decode())[:-1]

    return run


def test_logfmt_has_time_level_and_message_first(lines):
    (line,) = lines('log.info("Filtered nodes for %s: %s", "p", "a c", pod="ns/x", policy="p")')
    assert re.fullmatch(
        r'ts=\d{4}-\d\d-\d\dT[\d:.]+Z level=info msg="Filtered nodes for p: a c" pod=ns/x policy=p',
        line,
    )


def test_json_has_the_same_keys(lines):
    (line,) = lines('log.warning("not %s", "ready", node="n1", count=3)', "json")
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", found.pop("ts"))
    assert found == {"level": "warning", "msg": "not ready", "node": "n1", "count": 3}


@pytest.mark.parametrize("fmt", ["logfmt", "json"])
def test_no_value_forges_a_line_or_controls_a_terminal(lines, fmt):
    forged = ["\n", "\r", "\r\n", "\x0b", "\x85", "\u2028", "\x1b[2K\x1b[1A"]
    texts = [f"x{one}ts=2026 level=error msg=forged" for one in forged]
    found = lines(
        f"for v in {texts!r}:\n"
        '  log.info("%s", v, pod=v)\n'
        '  logging.getLogger("lib").info("%s", v)',
        fmt,
    )
    assert len(found) == 2 * len(texts)
    assert all(line.startswith("ts=" if fmt == "logfmt" else "{") for line in found)
    assert all(character.isprintable() for line in found for character in line)


@pytest.mark.parametrize("fmt", ["logfmt", "json"])
def test_exception_is_one_line_with_its_traceback(lines, fmt):
    (line,) = lines('try: 1 / 0\nexcept ZeroDivisionError: log.exception("broke")', fmt)
    assert "ZeroDivisionError: division by zero" in line
    assert "Traceback" in line


def test_logfmt_value_with_quotes_and_backslashes_can_be_parsed(lines):
    (line,) = lines(r'log.info("m", pod="a \"b\" c\\d e=f")')
    quoted = re.search(r'pod="((?:[^"\\]|\\.)*)"$', line)
    assert quoted
    assert quoted[1].replace('\\"', '"').replace("\\\\", "\\") == 'a "b" c\\d e=f'


def test_library_logs_have_the_same_format(lines):
    (line,) = lines('logging.getLogger("grpc").warning("lost %d of %d", 1, 3)')
    assert 'level=warning msg="lost 1 of 3"' in line


def test_lines_below_the_level_are_omitted(lines):
    code = 'log.info("no")\nlog.warning("yes")\nlogging.getLogger("lib").info("no")'
    (line,) = lines(code, level="warn")
    assert line.endswith("msg=yes")


def test_context_is_kept_by_a_bound_logger(lines):
    (line,) = lines('log.bind(policy="ns/p").info("hello", node="n")')
    assert "policy=ns/p" in line
    assert "node=n" in line


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "threading.Thread(target=int, args=(TEXT,)).start()",
            "exception in a thread or destructor",
        ),
        (
            "class A:\n  def __del__(self): raise ValueError(TEXT)\nA()",
            "exception in a thread or destructor",
        ),
        ("warnings.warn(TEXT)", "UserWarning: x"),
        ("asyncio.run(lose())", "never retrieved"),
    ],
)
def test_errors_and_warnings_of_python_are_logged(lines, code, says):
    task = "async def fail(): raise ValueError(TEXT)\nasync def lose():\n  t = asyncio.create_task(fail())\n  await asyncio.sleep(0)\n"
    text = "import asyncio, threading, warnings\nTEXT = 'x\\nts=1 level=error msg=forged'\n"
    (line,) = lines(f"logs.adopt()\n{text}{task}{code}")
    assert says in line
    assert line.startswith("ts=2")


@pytest.mark.parametrize("fmt", ["logfmt", "json"])
def test_fatal_error_is_logged(fmt):
    code = PROGRAM.format("logs.adopt()\nraise ValueError('x\\nlevel=error')")
    argv = [sys.executable, "-P", "-c", code, "info", fmt]
    done = subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert "uncaught exception" in line
    assert "ValueError: x\\nlevel=error" in line


def test_text_with_lone_surrogates_is_logged(lines):
    (line,) = lines(r'log.info("m", pod="caf\u00e9 \udcff")')
    assert "pod=" in line
