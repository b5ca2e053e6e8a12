"""`plimsoll backtest`: replays policies on recorded telemetry, and reports what they would have done.

Reads recordings and writes reports; the replay itself is `lab/replay`.
"""
