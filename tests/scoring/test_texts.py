"""Hypotheses in the order of the references."""

import pytest
from references.traced import traced

from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.texts import Corpus, System, languages_beside, system_of, written_languages


def test_missing_hypotheses_are_empty_and_listed():
    references = {"b": "x", "a": "y", "c": "z"}
    assert system_of("mine", references, {"a": "1", "b": ""}) == System("mine", ("", "1", ""), ("c",))


def test_hypotheses_without_a_reference_are_named():
    with pytest.raises(
        DataError, match="^mine: hypotheses without a reference .2.: x y; score against the text of the"
    ):
        system_of("mine", {"a": "b"}, {"x": "b", "a": "b", "y": ""})


def test_languages_are_known_of_some():
    corpus = Corpus({"a": "", "b": ""}, System("s", ("", "")), languages={"b": "de", "x": "fr"})
    assert corpus.language_list() == ["", "de"]
    assert corpus.systems() == [corpus.system]


def test_languages_match_the_tables_beside_the_texts(tmp_path):
    assert not languages_beside(tmp_path / "text")
    (tmp_path / "utt2lang").write_text("a es\nb fr\n")
    (tmp_path / "utt2tgtlang").write_text("a en\n")
    assert dict(languages_beside(tmp_path / "text").items()) == {"a": "en", "b": "fr"}
    assert dict(languages_beside(tmp_path / "src_text").items()) == {"a": "es", "b": "fr"}
    (tmp_path / "src_text").touch()  # then text is a translation
    assert dict(languages_beside(tmp_path / "text").items()) == {"a": "en"}


def test_texts_of_files_match_dicts_and_are_not_kept(tmp_path):
    count = 3000
    names = [f"u{number:05d}" for number in range(count)]
    (tmp_path / "ref").write_text("".join(f"{name} nine words are what a sentence has, {name}\n" for name in names))
    (tmp_path / "hyp").write_text("".join(f"{name} nine words are what it has\n" for name in names[::2]))
    references, hypotheses = (pack_table(tmp_path / name, "reference") for name in ("ref", "hyp"))
    expected = system_of("mine", dict(references.items()), dict(hypotheses.items()))

    def read():
        system = system_of("mine", references, pack_table(tmp_path / "hyp", "reference"))
        return system, sum(1 for _ in system.texts)

    (system, number), taken = traced(read)
    assert number == len(system.texts) == count and taken < 180 * count, taken / count  # a text alone takes 90
    assert (tuple(system.texts), system.missing) == (expected.texts, expected.missing)
    rate = ErrorRate("word")
    counts = [rate.statistics(references.values(), one.texts, [""] * count) for one in (system, expected)]
    assert (counts[0] == counts[1]).all()


@pytest.mark.parametrize(
    ("texts", "given", "languages"),
    [
        (["ไป", "go"], ["th", "en"], ["th", "en"]),
        (["ไป", "ok", "12"], ["tha"] * 3, ["tha"] * 3),
        (["go", "ไป", "on"], ["en"] * 3, ["en"] * 3),
        (["東京", "へ行く", "ok"], ["ja-JP"] * 3, ["ja-JP"] * 3),
        (["東京", "へ行く", "は"], [""] * 3, ["ja"] * 3),
        (["你好", "再见", "ok"], [""] * 3, ["zh"] * 3),
        (["你好", "go", "ok"], [""] * 3, ["zh", "", ""]),
        (["ไป", "ក", "go", "안"], [""] * 4, ["th", "km", "", "ko"]),
        (["wo men", "ok"], ["zh"] * 2, ["", ""]),
        (["", "12"], ["ja", ""], ["ja", ""]),
        (["Işık"], ["tr"], ["tr"]),
    ],
)
def test_the_script_tells_the_language(texts, given, languages):
    assert written_languages(texts, given) == languages
    corpus = Corpus(dict(enumerate(texts)), System("s", texts), languages=dict(enumerate(given)))
    assert corpus.language_list() == languages
