"""Where a backtest reads from: OpenMetrics files and Prometheus. Each is a `Source`, which yields a recording in parts."""
