"""Two parallel files: pairs, their ids, dropped lines and refused lines."""

import gzip
import sys
import tempfile
from functools import partial
from types import SimpleNamespace

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared import bitext
from espnet_diverse.corpora.shared.bitext import Cleaning, Files, Pair, Reader, in_order
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import ConfigError, DataError


@pytest.fixture
def files(tmp_path):
    """files(source lines, target lines) -> Files."""

    def write(*sides):
        paths = [tmp_path / f"train.{language}" for language in ("de", "en")]
        for path, lines in zip(paths, sides, strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return Files(*paths)

    return write


def test_pairs_become_tables(files):
    data = DataDir()
    reader = Reader(Selection(), "ted")
    reader.add(data, files(["Ein  Haus.", "Zwei\u00a0Häuser."], ["A house.", "Two houses."]), "de-en", "train")
    assert reader.faults.refused == []
    assert data.src_text == {"de-en-ted-train-0000001": "Ein Haus.", "de-en-ted-train-0000002": "Zwei Häuser."}
    assert data.text == {"de-en-ted-train-0000001": "A house.", "de-en-ted-train-0000002": "Two houses."}
    assert set(data.conditions["utt2lang"].values()) == {"de"} and set(data.conditions["utt2tgtlang"].values()) == {
        "en"
    }
    assert data.is_text and data.utterances() == sorted(data.text)


def test_files_of_different_length_are_refused_with_both_counts(files):
    reader = Reader(Selection(on_bad="drop"), "ted")
    found = files(["eins", "zwei", "drei"], ["one", "two"])
    assert reader.read(found, "de-en", "train", DataDir()) == []
    with pytest.raises(DataError) as error:
        reader.faults.refuse()
    expected = f"{found.target}: has 2 lines, and train.de has 3; parallel files are equally long: get both again"
    assert str(error.value) == expected


def test_empty_lines_are_listed_by_number(files):
    found = files(["eins", "", "drei", "vier"], ["one", "two", " ", ""])
    reader = Reader(Selection(), "ted")
    reader.read(found, "de-en", "train", DataDir())
    with pytest.raises(DataError) as error:
        reader.faults.refuse()
    todo = "is an empty line; write it, or remove it from all parallel files"
    assert str(error.value) == f"3 faults: {found.source}:2: {todo}; {found.target}:3: {todo}; also line 4"


def test_empty_and_unusable_lines_are_dropped_on_request(files):
    found = files(["eins", "", "drei\x07", "vier"], ["one", "two", "three", "four <unk>"])
    reader, data = Reader(Selection(on_bad="drop"), "ted"), DataDir()
    assert reader.read(found, "de-en", "train", data) == [Pair(1, "eins", "one")]
    assert reader.faults.refused == []
    symbol = "transcript contains the reserved symbol <unk>; remove it or write it in another way"
    empty = "is an empty line; write it, or remove it from all parallel files"
    assert data.dropped == {
        "de-en-ted-train-0000002": f"train.de:2: {empty}",
        "de-en-ted-train-0000003": "train.de:3: transcript contains the control character U+0007; remove it",
        "de-en-ted-train-0000004": f"train.en:4: {symbol}",
    }
    assert data.bad == {*data.dropped}


def test_unusable_lines_are_faults_otherwise(files):
    reader = Reader(Selection(), "ted")
    reader.read(files(["eins\x07"], ["one"]), "de-en", "train", DataDir())
    assert [fault.where for fault in reader.faults.refused] == [1]


def test_a_missing_file_is_one_fault_even_where_lines_may_be_dropped(files):
    found = files(["eins"], ["one"])
    found.target.unlink()
    reader = Reader(Selection(on_bad="drop"), "ted")
    assert reader.read(found, "de-en", "train", DataDir()) == []
    assert [str(fault) for fault in reader.faults.refused] == [
        f"{found.target}: cannot be read (No such file or directory)"
    ]


def test_compressed_files_are_read_and_damaged_ones_refused(files):
    source, target = files(["eins"], ["one"])
    packed = target.with_name("train.en.gz")
    packed.write_bytes(gzip.compress(target.read_bytes()))
    assert Reader(Selection(), "ted").read(Files(source, packed), "de-en", "train", DataDir()) == [
        Pair(1, "eins", "one")
    ]
    packed.write_bytes(packed.read_bytes()[:-9])
    reader = Reader(Selection(), "ted")
    reader.read(Files(source, packed), "de-en", "train", DataDir())
    assert str(reader.faults.refused[0]).startswith(f"{packed}: cannot be read (Compressed file ended before")


def test_lower_case(files):
    reader = Reader(Selection(case="lower"), "ted")
    (pair,) = reader.read(files(["Über ΟΔΟΣ"], ["The ROAD"]), "de-en", "train", DataDir())
    assert pair == (1, "über οδος", "the road")
    (pair,) = reader.read(files(["INDIA"], ["Işık İNDİ"]), "en-tr", "train", {})
    assert pair == (1, "india", "ışık indi")


def text_of(line):
    return None if line.startswith("<") else line


def test_markup_is_passed_over_in_each_file(files):
    """Ids have the lines of the source."""
    reader = Reader(Selection(), "ted", text_of=text_of)
    found = files(["<url>", "<reviewer>", "eins", "zwei"], ["<url>", "one", "<translator>", "two"])
    assert reader.read(found, "de-en", "train", DataDir()) == [Pair(3, "eins", "one"), Pair(4, "zwei", "two")]
    assert not reader.faults.refused


def test_talks_with_other_numbers_of_sentences_are_refused(files):
    """Though the files have equally many; pairs of the wrong sentences would be trained on."""
    reader = Reader(Selection(on_bad="drop"), "ted", matched=partial(in_order, text_of=text_of, talk="<url>"))
    found = files(["<url>", "eins", "zwei", "<url>", "drei"], ["<url>", "one", "<url>", "two", "three"])
    assert reader.read(found, "de-en", "train", DataDir()) == []
    (fault,) = map(str, reader.faults.refused)
    assert fault.startswith(f"{found.target}: talk 1 ends after 1 sentences, and in train.de after 2; talks are")


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("a b c", "a b", ""),
        ("a b c d", "a b", "4 words to 2, a ratio of more than 1.5"),
        ("a.", "a b, c", "4 words to 2, a ratio of more than 1.5"),
        ("a b c d e f", "a b c d e", "6 words, more than 5"),
        ("我 喝茶", "I drink tea", ""),  # three characters
    ],
)
def test_cleaning(source, target, reason):
    assert Cleaning(longest=5, ratio=1.5).reason(Pair(1, source, target)) == reason


def test_only_training_sets_are_cleaned(files):
    found = files(["a b c d"], ["a"])
    for name, kept in (("train", 0), ("train-europarl-v7", 0), ("dev", 1), ("test", 1)):
        reader, data = Reader(Selection(), "ted", Cleaning(9, 1.5)), DataDir()
        assert len(reader.read(found, "de-en", name, data)) == kept
        assert len(data.dropped) == 1 - kept and not data.bad


def test_pairs_of_several_directions_share_a_set():
    data = DataDir()
    for direction in ("de-en", "zh-CN-en"):
        Reader(Selection(), "ted").put(data, [Pair(7, "x", "y")], direction, "test")
    assert data.conditions["utt2lang"] == {"de-en-ted-test-0000007": "de", "zh-CN-en-ted-test-0000007": "zh-CN"}


@pytest.fixture(autouse=True)
def _fresh():
    bitext._jieba.cache_clear()
    yield
    bitext._jieba.cache_clear()


class Tokenizer:
    """Stands in for jieba's: words of two characters."""

    tmp_dir = None

    def initialize(self):
        self.used = self.tmp_dir

    def cut(self, text):
        return [text[start : start + 2] for start in range(0, len(text), 2)]


def test_words_are_parted_on_the_chinese_side_alone(tmp_path, monkeypatch):
    tokenizer = Tokenizer()
    fake = SimpleNamespace(Tokenizer=lambda: tokenizer, setLogLevel=lambda level: None)
    monkeypatch.setitem(sys.modules, "jieba", fake)
    for name, line in (("zh", "今天天气好"), ("en", "Fine weather")):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    reader = Reader(Selection(segmentation="jieba"), "news")
    (pair,) = reader.read(Files(tmp_path / "zh", tmp_path / "en"), "zh-en", "train", DataDir())
    assert pair == (1, "今天 天气 好", "Fine weather")
    (pair,) = reader.read(Files(tmp_path / "en", tmp_path / "zh"), "en-zh", "train", DataDir())
    assert pair == (1, "Fine weather", "今天天气好")
    assert tokenizer.used not in (None, tempfile.gettempdir())  # where anybody may put a cache to be loaded


def test_missing_jieba_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ConfigError) as error:
        bitext.segmenter("jieba")
    todo = "install it with pip install 'espnet_diverse[zh]', or leave --segmentation out"
    assert str(error.value) == f"segmentation jieba needs the package jieba; {todo}"
    assert bitext.segmenter("none")("今天") == "今天"
