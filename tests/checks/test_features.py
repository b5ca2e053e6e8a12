"""checks/features.py finds each feature that a test may not import, and all that is deleted with a feature."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARK = "mark.features"
GANGS, PAGES = (
    "from evaluator.features.gangs.plan import plan\n",
    "import evaluator.features.pages\n",
)


@pytest.fixture
def check():
    return runpy.run_path(str(ROOT / "checks" / "features.py"))


@pytest.fixture
def write(tmp_path):
    """Write files of a tree with the features gangs and pages."""

    def run(files):
        features = {f"evaluator/features/{name}/feature.py": "" for name in ("gangs", "pages")}
        for name, text in (features | files).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return run


@pytest.fixture
def findings(check, write, tmp_path, capsys):
    """The findings in a tree with these files of tests."""

    def run(files):
        write(files)
        status = check["main"](tmp_path)
        found = capsys.readouterr().out.splitlines()
        assert status == bool(found)
        return found

    return run


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tests/evaluator/core/test_a.py", PAGES),
        ("tests/evaluator/core/test_a.py", f"def f():\n try:\n  1\n except E:\n  {PAGES}"),
        ("tests/evaluator/conftest.py", PAGES),
        ("tests/evaluator/features/test_a.py", PAGES),
        ("tests/evaluator/features/gangs/test_a.py", PAGES),
        ("tests/evaluator/features/gangs/core/test_a.py", PAGES),
        ("tests/helper.py", PAGES),
        ("tests/deploy/test_a.py", GANGS + PAGES),
        ("tests/lab/test_a.py", GANGS + PAGES),
    ],
)
def test_feature_that_a_test_may_not_import_is_found(findings, path, text):
    sentence = f"{path} may not import the feature pages: checks/features.py has the rule"
    assert sentence in findings({path: text})


def test_import_through_a_helper_or_a_conftest_is_found(findings):
    site = "tests/evaluator/features/pages/site.py"
    through = "from tests.evaluator.features.pages.site import Site\n"
    (finding,) = findings({site: PAGES, "tests/evaluator/core/test_a.py": through})
    assert f"the feature pages through {site}:" in finding
    assert len(findings({"tests/evaluator/core/conftest.py": through})) == 2


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tests/evaluator/core/test_a.py", "from evaluator.features.registry import FEATURES\n"),
        ("tests/evaluator/core/test_a.py", f"pytestmark = pytest.{MARK}('pages')\n"),
        ("tests/evaluator/features/gangs/test_a.py", GANGS),
        ("tests/deploy/test_a.py", GANGS),
        ("tests/together/test_a.py", GANGS + PAGES),
    ],
)
def test_other_imports_are_no_finding(findings, path, text):
    assert findings({path: text}) == []


@pytest.mark.parametrize(
    "text",
    ["import evaluator.features.old.plan\n", f"@pytest.{MARK}('gangs', 'old')\ndef f(): 1"],
)
def test_what_is_left_of_a_deleted_feature_is_found(findings, text):
    (finding,) = findings({"tests/deploy/test_a.py": text})
    assert finding == "tests/deploy/test_a.py needs the feature old, which is not there: delete it"


def test_files_elsewhere_that_import_a_feature_are_deleted_with_it(check, write, tmp_path, capsys):
    write(
        {
            "lab/adapters/gangs.py": GANGS,
            "tests/evaluator/features/gangs/test_a.py": GANGS,
            "tests/lab/test_gangs.py": "from lab.adapters.gangs import ADAPTER\n",
            "tests/together/test_b.py": GANGS + PAGES,
            "tests/together/test_c.py": PAGES,
        }
    )
    assert check["main"](tmp_path, "gangs") == 0
    assert capsys.readouterr().out.splitlines() == [
        "evaluator/features/gangs",
        "tests/evaluator/features/gangs",
        "lab/adapters/gangs.py",
        "tests/lab/test_gangs.py",
        "tests/together/test_b.py",
    ]
