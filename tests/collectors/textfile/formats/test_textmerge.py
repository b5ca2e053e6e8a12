from collectors.interface.sample import Family, Sample
from collectors.textfile.formats import promtext
from collectors.textfile.formats.textmerge import beside, merge

NONE = frozenset[str]()


def read(**files: bytes) -> dict[str, tuple[promtext.TextFamily, ...]]:
    return {f"{name}.prom": promtext.parse(data) for name, data in files.items()}


def test_consistent_files_make_one_family() -> None:
    families, conflicts = merge(
        read(a=b'# HELP x Help.\nx{f="a"} 1\n', b=b'# HELP x Help.\nx{f="b"} 2\n'), reserved=NONE
    )
    assert conflicts == []
    assert [(f.name, f.help, len(f.samples)) for f in families] == [("x", "Help.", 2)]


def test_default_help_names_the_files() -> None:
    (family,), _ = merge(read(a=b'x{f="a"} 1\n', b=b'x{f="b"} 2\n'), reserved=NONE)
    assert family.help == "Metric read from a.prom, b.prom"


def test_help_of_one_file_applies_to_others_without_it() -> None:
    (family,), conflicts = merge(
        read(a=b'x{f="a"} 1\n', b=b'# HELP x Help.\nx{f="b"} 2\n'), reserved=NONE
    )
    assert conflicts == []
    assert family.help == "Help."


def test_first_file_wins_if_help_differs() -> None:
    (family,), conflicts = merge(
        read(a=b'# HELP x One.\nx{f="a"} 1\n', b=b'# HELP x Two.\nx{f="b"} 2\ny 1\n')
        | read(c=b'# HELP x One.\nx{f="c"} 3\n'),
        reserved=frozenset({"y"}),
    )
    assert family.help == "One."
    assert [sample.value for sample in family.samples] == [1, 3]
    assert [(c.file, c.metric) for c in conflicts] == [("b.prom", "x"), ("b.prom", "y")]


def test_first_file_wins_if_type_differs() -> None:
    (family,), (conflict,) = merge(
        read(a=b"# TYPE x gauge\nx 1\n", b=b'# TYPE x counter\nx{f="b"} 2\n'), reserved=NONE
    )
    assert family.type == "gauge"
    assert conflict.reason == "type"
    assert conflict.text == "TYPE is counter here and gauge in a.prom"


def test_duplicate_series_is_that_of_the_first_file() -> None:
    families, (conflict,) = merge(
        read(a=b'x 1\nx{f="a"} 1\n', b=b'x{f=""} 2\n', c=b"z 1\n"), reserved=NONE
    )
    assert [sample.value for sample in families[0].samples] == [1, 1]
    assert conflict.file == "b.prom"
    assert families[1].name == "z"


BUILTIN = Family("x", "gauge", "Help.", (Sample("x", (("b", "2"), ("a", "1")), 5.0),))


def beside_builtin(**files: bytes) -> tuple[list[Family], list[tuple[str, str]]]:
    merged, conflicts = merge(read(**files), reserved=NONE)
    assert conflicts == []
    kept, clashes = beside(merged, {"x": BUILTIN})
    return kept, [(clash.file, clash.reason) for clash in clashes]


def test_file_may_add_series_to_a_built_in_metric() -> None:
    kept, clashes = beside_builtin(
        a=b'# HELP x Help.\n# TYPE x gauge\nx{a="9"} 1\n', b=b'# TYPE x gauge\nx{a="8"} 2\ny 1\n'
    )
    assert clashes == []
    assert [(f.name, f.help, [s.value for s in f.samples]) for f in kept] == [
        ("x", "Help.", [1, 2]),
        ("y", "Metric read from b.prom", [1]),
    ]


def test_built_in_series_precede_those_of_a_file() -> None:
    for text in (
        b"# TYPE x counter\nx 1\n",
        b"# HELP x Other.\n# TYPE x gauge\nx 1\n",
        b'# TYPE x gauge\nx{a="1",b="2"} 1\n',
        b'# TYPE x gauge\nx{a="1",b="2",c=""} 1\n',
    ):
        assert beside_builtin(a=text) == ([], [("a.prom", "builtin")]), text


def test_only_conflicting_series_of_files_are_omitted() -> None:
    kept, clashes = beside_builtin(
        a=b'# TYPE x gauge\nx{a="1",b="2"} 1\n', b=b'# TYPE x gauge\nx{a="3"} 3\n'
    )
    assert [[s.value for s in f.samples] for f in kept] == [[3]]
    assert clashes == [("a.prom", "builtin")]
