"""Expressions that nobody thought of, asked of Prometheus and of us."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SELECTORS = (
    *("work_total", 'work_total{cpu="1"}', 'work_total{mode!="idle",cpu=~"0|2"}', "fast_total"),
    *("gappy_total", "young_total", "constant_total", "reset_always_total", "late_total", "ended"),
    *("temperature_celsius", 'temperature_celsius{chip=~"nvme|dimm"}', "flag", "climbing", "odd"),
    *("single", "pair", "label_values", "rank", "score", "zone_limit", "zone_info", "zone_double"),
    *("used_bytes", "size_bytes", "seconds_bucket", "errors_total", "nothing", "same_a"),
    *('{__name__=~"same_.*"}', '{zone="a"}', 'seconds_bucket{job=~"good|falling|zero"}'),
)
NUMBERS = ("0", "1", "2.5", "-1", "0.5", "100", "1e6", "NaN", "Inf", "-Inf")
RANGES = ("14s", "30s", "1m", "4m59s", "5m", "12m")
SUBQUERIES = ("1m:15s", "2m:", "5m:40s", "90s:7s")
OFFSETS = ("", "", "", " offset 15s", " offset 4m", " offset -30s", " offset 20m1ms")
LABELS = (
    *("cpu", "mode", "chip", "sensor", "zone", "disk", "team", "job", "le", "kind", "even"),
    "nothing",
)
OVER_TIME = (
    *("rate", "irate", "increase", "delta", "idelta", "deriv", "changes", "resets"),
    *(f"{how}_over_time" for how in ("avg", "min", "max", "sum", "count", "stddev", "stdvar")),
    *("last_over_time", "present_over_time", "absent_over_time"),
)
MATHS = ("abs", "ceil", "floor", "exp", "ln", "log2", "log10", "sqrt", "sgn", "round", "timestamp")
ARITHMETIC = ("+", "-", "*", "/", "%", "^", "atan2")
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
names = st.lists(st.sampled_from(LABELS), max_size=3, unique=True).map(", ".join)


def one_of(*texts):
    return st.sampled_from(texts)


def scalars(deeper):
    return one_of(*NUMBERS, "time()") | deeper.map("scalar({})".format)


def ranges(deeper):
    """A range vector: of samples, or of what an expression was."""
    offset = one_of(*OFFSETS)
    plain = st.builds("{}[{}]{}".format, one_of(*SELECTORS), one_of(*RANGES), offset)
    return plain | st.builds("({})[{}]{}".format, deeper, one_of(*SUBQUERIES), offset)


def calls(deeper):
    number = scalars(deeper)
    over = ranges(deeper)
    return st.one_of(
        st.builds("{}({})".format, one_of(*OVER_TIME), over),
        st.builds("quantile_over_time({}, {})".format, number, over),
        st.builds("predict_linear({}, {})".format, over, number),
        st.builds("{}({})".format, one_of(*MATHS, "absent", "-", ""), deeper),
        st.builds("clamp({}, {}, {})".format, deeper, number, number),
        st.builds("{}({}, {})".format, one_of("clamp_min", "clamp_max", "round"), deeper, number),
        st.builds("vector({})".format, number),
        st.builds("histogram_quantile({}, {})".format, number, deeper),
        st.builds(
            'label_replace({}, "{}", "{}", "{}", "{}")'.format,
            deeper,
            one_of(*LABELS),
            one_of("", "$1", "x${1}y"),
            one_of(*LABELS),
            one_of("", "(.*)", "(.).*", ".+"),
        ),
        st.builds(
            'label_join({}, "{}", "-", "{}", "{}")'.format,
            *(deeper, one_of(*LABELS), one_of(*LABELS), one_of(*LABELS)),
        ),
    )


def aggregations(deeper):
    by = st.just("") | st.builds("{} ({}) ".format, one_of("by", "without"), names)
    plain = one_of("sum", "min", "max", "avg", "count", "stddev", "stdvar", "group")
    return st.one_of(
        st.builds("{} {}({})".format, plain, by, deeper),
        st.builds("quantile {}({}, {})".format, by, scalars(deeper), deeper),
        # Which of equals are left is nobody's promise, but how many and how large they are.
        st.builds(
            "{}({} {}({}, {}))".format,
            one_of("sum", "count", "min"),
            one_of("topk", "bottomk"),
            *(by, one_of("1", "2"), deeper),
        ),
        st.builds('count_values {}("{}", {})'.format, by, one_of(*LABELS), deeper),
    )


def combinations(deeper):
    matching = st.just("") | st.builds("{} ({})".format, one_of("on", "ignoring"), names)
    group = st.just("") | st.builds("{} ({})".format, one_of("group_left", "group_right"), names)
    compared = one_of(*COMPARISONS, *(f"{sign} bool" for sign in COMPARISONS))
    operator = one_of(*ARITHMETIC) | compared
    matched = st.builds("({}) {} {} {} ({})".format, deeper, operator, matching, group, deeper)
    many = st.builds("({}) {} {} ({})".format, deeper, operator, matching, deeper)
    joined = st.builds(
        "({}) {} {} ({})".format, deeper, one_of("and", "or", "unless"), matching, deeper
    )
    number = scalars(deeper)
    return st.one_of(
        many,
        matched,
        joined,
        st.builds("({}) {} {}".format, deeper, operator, number),
        st.builds("{} {} ({})".format, number, operator, deeper),
    )


vectors = st.recursive(
    st.builds("{}{}".format, one_of(*SELECTORS), one_of(*OFFSETS)),
    lambda deeper: calls(deeper) | aggregations(deeper) | combinations(deeper),
    max_leaves=5,
)


def test_what_nobody_thought_of(both, moments, soak):
    @settings(
        max_examples=20_000 if soak else 250,
        suppress_health_check=list(HealthCheck),
    )
    @given(vectors, st.sampled_from(moments))
    def compare(text, moment):
        differences = list(both.differences(text, [moment]))
        assert not differences, differences[0]

    compare()
