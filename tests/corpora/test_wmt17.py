"""WMT17 Chinese–English on News Commentary."""

import sys

import pytest

from espnet_diverse.corpora import Selection, wmt17
from espnet_diverse.errors import ConfigError, DataError


@pytest.fixture
def tree(write_texts):
    """250 sentences, the last of them far longer in English."""
    return write_texts(
        {
            "training/news-commentary-v12.zh-en.zh": [f"新闻 {number}" for number in range(250)],
            "training/news-commentary-v12.zh-en.en": [*(f"news {number}" for number in range(249)), "a " * 10],
            "test/newstest2017-zhen-src.zh.sgm": ['<seg id="1">今天</seg>'],
            "test/newstest2017-zhen-ref.en.sgm": ['<seg id="1">Today</seg>'],
        }
    )


def test_official_release(tree):
    sets = wmt17.prepare(tree)
    assert {name: len(data.text) for name, data in sets.items()} == {"train": 247, "dev": 2, "test": 1}
    assert sets["dev"].text == {"zh-en-wmt17-dev-0000100": "news 99", "zh-en-wmt17-dev-0000200": "news 199"}
    assert sets["train"].dropped == {"zh-en-wmt17-train-0000250": "10 words to 3, a ratio of more than 3"}
    assert sets["test"].src_text == {"zh-en-wmt17-test-0000001": "今天"}


def test_bad_input(tree, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ConfigError, match="segmentation jieba needs the package jieba"):
        wmt17.prepare(tree, Selection(segmentation="jieba"))
    with pytest.raises(ConfigError, match="there is no direction 'en-zh'; there are: zh-en$"):
        wmt17.prepare(tree, Selection(pairs=("en-zh",)))
    with pytest.raises(DataError, match="no WMT17 in .*: there is no .*/training/news-commentary-v12.zh-en.zh; unpack"):
        wmt17.prepare(tmp_path / "nowhere")
