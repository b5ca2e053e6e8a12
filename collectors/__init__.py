"""One module reads one telemetry source of a node; a module's name is its flag and its `collector` label."""
