"""Features that answer on the extender's port."""

from tests.evaluator.features.extender.conftest import extender  # noqa: F401  a fixture
