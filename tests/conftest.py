"""What holds for all tests."""

import pytest
from hypothesis import settings

# A machine that is busy with something else is no defect of ours.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak", action="store_true", help="run tests/soak and tests/fuzz at full size: hours"
    )


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether tests that have two sizes run at the full one."""
    return bool(request.config.getoption("--soak"))
