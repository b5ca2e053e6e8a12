"""Reads recordings as the backtest does, for tests."""

from lab.backtest.inputs.openmetrics import SeriesTable


def read(*files):
    """Return times and values by name and labels."""
    table = SeriesTable(lambda _name: True)
    for file in files:
        with file.open("rb") as lines:
            table.read(file.name, lines)
    return {
        (one.name, *sorted(one.labels.items())): [*zip(one.times, one.values, strict=True)]
        for one in table.series
    }
