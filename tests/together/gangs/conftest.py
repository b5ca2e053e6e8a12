"""Features that show or change gangs: constructors of pods and gangs."""

from tests.evaluator.features.gangs.conftest import (  # noqa: F401  fixtures
    a_pod,
    gangs_of,
    space_of,
    with_membership,
)
