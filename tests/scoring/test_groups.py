"""Rows by language, direction and domain, and what is averaged."""

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.scoring.groups import Group, averages, groups, read_sizes

LANG = {"a": "es", "b": "fr", "c": "es", "x": "unused"}
TARGET = {"a": "en", "b": "en", "c": "pt"}
DOMAIN = {"a": "tedx", "b": "tedx", "c": "europarl"}


def test_rows_of_one_table_and_of_two():
    assert groups("abc", {"d/utt2lang": LANG}) == {"es": Group("es", "", [0, 2]), "fr": Group("fr", "", [1])}
    assert list(groups("cba", {"d/utt2lang": LANG, "d/utt2tgtlang": TARGET})) == ["es-en", "es-pt", "fr-en"]
    assert groups("abc", {}) == {}


def test_a_domain_stands_apart_from_the_direction():
    rows = groups("abc", {"d/utt2domain": DOMAIN, "d/utt2lang": LANG})
    assert rows["tedx-es"] == Group("es", "tedx", [0])
    assert list(rows) == ["europarl-es", "tedx-es", "tedx-fr"]
    assert groups("abc", {"d/utt2domain": DOMAIN})["tedx"] == Group("tedx", "", [0, 1])


def test_an_utterance_without_a_name():
    message = "^d/utt2lang: 2 of 4 reference utterances have no entry, the first is 'y'; add a line"
    with pytest.raises(DataError, match=message):
        groups("aycz", {"d/utt2lang": LANG})


def test_averages_of_all_rows_of_trained_and_of_zero_shot_ones():
    rows = {name: Group(name) for name in ("es-en", "fr-en", "fr-pt")}
    assert averages(rows) == {"AVG": ["es-en", "fr-en", "fr-pt"]}
    expected = {"AVG": ["es-en", "fr-en", "fr-pt"], "AVG-T": ["es-en", "fr-en"], "AVG-Z": ["fr-pt"]}
    assert averages(rows, ["fr-pt", "not-here"]) == expected
    assert averages({}) == {}


def test_high_means_more_than_the_bound():
    rows = {name: Group(name) for name in ("cs", "de", "gu")}
    sizes = {"cs": 11e6, "de": 4.6e6, "gu": 1e4}
    assert averages(rows, sizes=sizes) == {"AVG": ["cs", "de", "gu"], "High": ["cs"], "Low": ["de", "gu"]}
    assert averages(rows, sizes=sizes, above=1e4)["Low"] == ["gu"]


def test_domains_have_averages_of_their_own():
    rows = groups("abc", {"utt2domain": DOMAIN, "utt2lang": LANG})
    assert averages(rows, ["fr"], {"es": 1, "tedx-fr": 9}, above=5) == {
        "AVG": ["europarl-es", "tedx-es", "tedx-fr"],
        "AVG-T": ["europarl-es", "tedx-es"],
        "AVG-Z": ["tedx-fr"],
        "High": ["tedx-fr"],
        "Low": ["europarl-es", "tedx-es"],
        "europarl AVG": ["europarl-es"],
        "europarl AVG-T": ["europarl-es"],
        "europarl Low": ["europarl-es"],
        "tedx AVG": ["tedx-es", "tedx-fr"],
        "tedx AVG-T": ["tedx-es"],
        "tedx AVG-Z": ["tedx-fr"],
        "tedx High": ["tedx-fr"],
        "tedx Low": ["tedx-es"],
    }


def test_different_values_do_not_become_one_row():
    tables = {"data/utt2lang": {"u1": "zh-HK", "u2": "zh"}, "data/utt2tgtlang": {"u1": "en", "u2": "HK-en"}}
    said = "row 'zh-HK-en' would have the utterances of zh-HK and en, and zh and HK-en; rename a value$"
    with pytest.raises(DataError, match=f"^data/utt2lang data/utt2tgtlang: {said}"):
        groups(["u1", "u2"], tables)


def test_a_row_without_a_size_and_a_row_named_like_an_average():
    with pytest.raises(DataError, match="^row 'fr' has no size of its training data; known sizes: es de$"):
        averages({"fr": Group("fr")}, sizes={"es": 1, "de": 2})
    for name in ("AVG", "all"):
        with pytest.raises(DataError, match=f"^row '{name}' has the name of an average or of the whole corpus; rename"):
            averages({name: Group(name)})


def test_sizes_are_read(tmp_path):
    path = tmp_path / "sizes"
    path.write_text("de 4.6e6\ncs 11\n")
    assert read_sizes(path) == {"cs": 11, "de": 4.6e6}


@pytest.mark.parametrize("amount", ["many", "-1", "nan", "inf", "1 2"])
def test_a_size_that_is_no_number(tmp_path, amount):
    (tmp_path / "sizes").write_text(f"de {amount}\n")
    with pytest.raises(
        DataError, match=f"sizes: '{amount}' of row 'de' is not a number from 0; a line is: row amount$"
    ):
        read_sizes(tmp_path / "sizes")
