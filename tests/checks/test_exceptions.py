"""checks/exceptions.py finds each way to keep an exception in a local, and no other use of one."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def findings(tmp_path, capsys):
    """The findings in a function with this body."""
    check = runpy.run_path(str(ROOT / "checks" / "exceptions.py"))

    def of(body):
        module = tmp_path / "plimsoll" / "m.py"
        module.parent.mkdir(exist_ok=True)
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        module.write_text(f"def f(things):\n{lines}")
        status = check["main"](tmp_path)
        found = capsys.readouterr().out.splitlines()
        assert status == bool(found)
        return found

    return of


@pytest.mark.parametrize(
    "body",
    [
        "error = ValueError()\nraise error",
        "error: Exception = ValueError()\nraise error",
        "if error := things.pop():\n    raise error",
        "for result in things:\n    raise result",
        "try:\n    g()\nexcept ValueError as error:\n    saved = error\n",
        "try:\n    g()\nexcept ValueError as error:\n    done, saved = False, error\n",
        "try:\n    g()\nexcept ValueError as error:\n    saved = saved if things else error\n",
        "try:\n    g()\nexcept ValueError as error:\n    if inner := error.__context__:\n        pass\n",
    ],
)
def test_exception_in_a_local_is_found(findings, body):
    (found, *_) = findings(body)
    assert found.startswith("plimsoll/m.py:")


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError",
        "raise ValueError(things)",
        "try:\n    g()\nexcept ValueError as error:\n    raise error\n",
        "try:\n    g()\nexcept ValueError as error:\n    text = str(error)\n",
        "try:\n    g()\nexcept ValueError as error:\n    status = error.status\n",
        "try:\n    g()\nexcept ValueError as error:\n    raise KeyError from error\n",
        "def g():\n    error = 1\nraise things",
    ],
)
def test_other_uses_of_exceptions_are_no_finding(findings, body):
    assert findings(body) == []
