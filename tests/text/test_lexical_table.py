"""IBM model 1 against loops over every pair of tokens, and the file of its table."""

import gzip
from collections import defaultdict

import numpy as np
import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.text import lexical_table
from espnet_diverse.text.lexical_table import LexicalTable, estimate, load, save

SOURCE, TARGET = ("<unk>", "das", "haus", "buch", "ein"), ("<unk>", "the", "house", "book", "a", "")
SENTENCES = [([1, 2], [1, 2]), ([1, 3], [1, 3]), ([4, 3], [4, 3]), ([1, 2, 1], [1, 2, 2]), ([], [4]), ([2], [])]
SIZES = len(SOURCE), 5


def naive(pairs, iterations):
    """p(target | source) by (source, target), source 5 being NULL."""
    pairs = [([SIZES[0], *source], target) for source, target in pairs]
    p = defaultdict(lambda: 1 / SIZES[1])
    for _ in range(iterations):
        counts, sums = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for t in target:
                total = sum(p[s, t] for s in source)
                for s in source:
                    counts[s, t] += p[s, t] / total
                    sums[s] += p[s, t] / total
        p = defaultdict(float, {(s, t): count / sums[s] for (s, t), count in counts.items()})
    return dict(p)


def entries(table):
    """The probabilities of a table by (source, target)."""
    sources = np.repeat(np.arange(len(table.begins) - 1), np.diff(table.begins))
    rows = zip(sources.tolist(), table.targets.tolist(), table.probabilities.tolist(), strict=True)
    return {(source, target): probability for source, target, probability in rows}


@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_the_table_is_ibm_model_1(iterations):
    rng = np.random.default_rng(0)
    random = [(rng.integers(0, 5, rng.integers(1, 9)).tolist(), rng.integers(0, 5, 7).tolist()) for _ in range(30)]
    for pairs in (SENTENCES, random):
        table = estimate(*zip(*pairs, strict=True), SIZES, iterations)
        assert entries(table) == pytest.approx(naive(pairs, iterations))


def test_em_finds_what_belongs_together():
    table = estimate(*zip(*SENTENCES, strict=True), SIZES, iterations=20, best=1)
    best = {SOURCE[source]: [TARGET[target] for target in table.best(source, 3)] for source in range(SIZES[0])}
    assert best == {"<unk>": [], "das": ["the"], "haus": ["house"], "buch": ["book"], "ein": ["a"]}
    assert [TARGET[target] for target in table.of_null] == ["a"]


def test_what_becomes_impossible_is_left_out():
    table = estimate(*zip(*SENTENCES, strict=True), SIZES, iterations=20_000)
    assert (table.probabilities > 0).all() and len(table.targets) < len(naive(SENTENCES, 1))
    assert table.begins[-1] == len(table.targets)


def test_the_best_are_the_first_of_all():
    every, few = (estimate(*zip(*SENTENCES, strict=True), SIZES, best=best) for best in (100, 2))
    for source in range(SIZES[0] + 1):
        probabilities = every.probabilities[every.begins[source] : every.begins[source + 1]]
        assert (np.diff(probabilities) <= 0).all()
        assert few.best(source, 9).tolist() == every.best(source, 9)[:2].tolist() == every.best(source, 2).tolist()


def test_of_a_large_corpus_every_nth_pair_is_read(monkeypatch):
    once = estimate(*zip(*SENTENCES[:2], strict=True), SIZES)
    monkeypatch.setattr(lexical_table, "_MOST_LINKS", 12)  # each pair has six
    between = [pair for kept in SENTENCES[:2] for pair in (kept, ([4, 3], [4, 3]))]
    assert entries(estimate(*zip(*between, strict=True), SIZES)) == entries(once)


def test_pairs_without_target_tokens_are_refused():
    with pytest.raises(DataError, match="no pair of sentences has target tokens"):
        estimate([[1]], [[]], SIZES)


@pytest.mark.parametrize("name", ["lex.s2t", "lex.s2t.gz"])
def test_a_file_is_read_as_it_was_written(tmp_path, name):
    table = estimate(*zip(*SENTENCES, strict=True), SIZES)
    save(table, path := tmp_path / "lex.s2t", SOURCE, TARGET)
    assert "the das 0.55" in path.read_text() and "a NULL 0.59" in path.read_text()
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    assert entries(load(tmp_path / name, SOURCE, TARGET)) == pytest.approx(entries(table), rel=1e-5)


def test_lines_may_have_any_order(tmp_path):
    (path := tmp_path / "lex.s2t").write_text("a das .1\nbook buch 1\nthe das .9\n")
    table = load(path, SOURCE, TARGET)
    assert [TARGET[target] for target in table.best(1, 9)] == ["the", "a"]
    assert len(table.of_null) == 0 and isinstance(table, LexicalTable)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"the das .5\nthe das\n", ":2: has 2 columns, not 'target source probability'"),
        (b"the das .5 .5\n", ":1: has 4 columns"),
        (b"the  das .5\n", ":1: has 4 columns"),
        (b"\n", ":1: has 1 columns"),
        (b"das the .5\n", ":1: 'das' is no token of the model's output text"),
        (b"the Das .5\n", ":1: 'Das' is no token of the model's source text"),
        (b"the das much\n", ":1: 'much' is no probability"),
        (b"the das 0\n", ":1: '0' is no probability"),
        (b"the das 1.5\n", ":1: '1.5' is no probability"),
        (b"the das nan\n", ":1: 'nan' is no probability"),
        (b"the das -inf\n", ":1: '-inf' is no probability"),
        (b"", ": is empty"),
        (b"\x80\x04\x95.\n", ":1: not utf-8"),
        (b"PK\x03\x04" + bytes(range(256)) * 4, ":1: "),
        (b"x" * 2_000_000, ":1: has more than the 1000000 bytes"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, content, said):
    (path := tmp_path / "lex.s2t").write_bytes(content)
    with pytest.raises(DataError) as error:
        load(path, SOURCE, TARGET)
    assert f"{path}{said}" in str(error.value)


def test_a_file_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lexical_table, "_MOST_LINES", 2)
    (path := tmp_path / "lex.s2t").write_text("the das .5\n" * 9)
    with pytest.raises(DataError, match="has more than 2 lines"):
        load(path, SOURCE, TARGET)
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "absent", SOURCE, TARGET)
