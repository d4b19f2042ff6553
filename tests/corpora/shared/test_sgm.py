"""Files of evaluation campaigns: the sentence of a line, and the files of a set."""

import pytest

from espnet_diverse.corpora.shared.bitext import Files
from espnet_diverse.corpora.shared.sgm import find_segments, segment
from espnet_diverse.errors import DataError

NAMES = ("test-src.{}.sgm", "test-ref.{}.sgm")


def test_segments():
    assert segment('<seg id="12"> a &lt;b&gt; </seg>') == "a <b>"
    assert segment('<seg id="12">hello&#160;world &#8203;x</seg>') == "hello world x"
    assert segment("<SEG ID=3>x</SEG>") == "x"
    assert segment("  <seg id='1'></seg>\n") == ""
    assert [segment(line) for line in ("</doc>", "plain", "", "<seg id=1>x", "<seg>x</seg>")] == [None] * 5


def test_files_are_found_in_any_folder_by_side(tmp_path):
    for name in ("b/test-src.de.sgm", "a/x/test-ref.en.sgm", "a/test-ref.de.sgm", "c/test-src.de.sgm"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = Files(tmp_path / "b/test-src.de.sgm", tmp_path / "a/x/test-ref.en.sgm")
    assert find_segments(tmp_path, NAMES, "de-en") == expected
    with pytest.raises(DataError, match=f"^no test-src.en.sgm in {tmp_path} or its folders; unpack its archive there$"):
        find_segments(tmp_path, NAMES, "en-de")
