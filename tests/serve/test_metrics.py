"""Counts of a server, as Prometheus reads them."""

import re

from espnet_diverse.serve.metrics import Metrics

LINE = re.compile(r'espnet_diverse_[a-z_]+\{[a-z]+="[^"\\\n]*"(,[a-z]+="[^"\\\n]*")*\} [0-9.e+-]+')


def test_every_line_is_a_number_of_a_family_that_was_declared_before():
    metrics = Metrics()
    for seconds in (0.05, 2.0, 1e9):
        metrics.answered("/health", 200, seconds)
    metrics.add("refused_total", reason="queue")
    declared = ""
    for line in metrics.text().splitlines():
        if line.startswith("# TYPE "):
            declared = line.split()[2]
        assert line.startswith("# ") or LINE.fullmatch(line) and line.startswith(declared)


def test_buckets_are_cumulative():
    metrics = Metrics()
    for seconds in (0.05, 2.0, 1e9):
        metrics.answered("/health", 200, seconds)
    found = re.findall(r'_bucket\{path="/health",le="(.*)"\} (\d)', metrics.text())
    assert found[0] == ("0.1", "1") and found[-2:] == [("100", "2"), ("+Inf", "3")]
    assert [count for _, count in found] == sorted(count for _, count in found)
