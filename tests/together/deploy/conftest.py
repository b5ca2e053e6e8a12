"""What several features may write to a real API server, with the shipped manifests."""

from tests.deploy.conftest import (  # noqa: F401  fixtures
    built,
    control_plane,
    kubectl,
    run,
    with_components,
)
