"""Segmentation of Chinese: jieba where it is installed, and an error that says how to get it where it is not."""

import sys
import tempfile
from types import SimpleNamespace

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared import word_segmentation
from espnet_diverse.corpora.shared.bitext import Files, Reader
from espnet_diverse.errors import ConfigError


@pytest.fixture(autouse=True)
def _fresh():
    word_segmentation._jieba.cache_clear()
    yield
    word_segmentation._jieba.cache_clear()


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
    (pair,) = reader.read(Files(tmp_path / "zh", tmp_path / "en"), "zh-en", "train", {})
    assert pair == (1, "今天 天气 好", "Fine weather")
    (pair,) = reader.read(Files(tmp_path / "en", tmp_path / "zh"), "en-zh", "train", {})
    assert pair == (1, "Fine weather", "今天天气好")
    assert tokenizer.used not in (None, tempfile.gettempdir())  # where anybody may put a cache to be loaded


def test_without_jieba_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ConfigError) as error:
        word_segmentation.segmenter("jieba")
    todo = "install it with pip install 'espnet_diverse[zh]', or leave --segmentation out"
    assert str(error.value) == f"segmentation jieba needs the package jieba; {todo}"
    assert word_segmentation.segmenter("none")("今天") == "今天"
