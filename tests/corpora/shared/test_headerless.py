"""Tables of LJSpeech and VITS."""

import pytest

from espnet_diverse.corpora.shared.headerless import with_names
from espnet_diverse.corpora.shared.table_files import read_table_file
from espnet_diverse.errors import DataError


def read(folder, content, columns=()):
    for name in ("wavs/X-1.wav", "wavs/X-2.wav"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (folder / "t.csv").write_text(content)
    table = with_names(read_table_file(folder / "t.csv"), folder, columns)
    return table.columns, [tuple(row.values.values()) for row in table.rows], [row.where for row in table.rows]


def test_ids_get_the_folder_and_the_suffix_of_the_audio(tmp_path, caplog):
    content = 'X-1|No. "5", then|No. "5", then\nX-2|in 2|in two\n'
    rows = [("wavs/X-1.wav", 'No. "5", then', 'No. "5", then'), ("wavs/X-2.wav", "in 2", "in two")]
    assert read(tmp_path, content) == (["audio", "written", "text"], rows, [1, 2])
    assert caplog.messages == [f"notice: {tmp_path}/t.csv: has no line of names; it is read as audio|written|text"]
    assert read(tmp_path, "X-1|one\n")[:2] == (["audio", "text"], [("wavs/X-1.wav", "one")])


def test_paths_may_have_speakers_beside_them(tmp_path):
    rows = [("wavs/X-1.wav", "7", "one, two")]
    assert read(tmp_path, "wavs/X-1.wav|7|one, two\n")[:2] == (["audio", "speaker", "text"], rows)


def test_a_first_line_of_names_counts(tmp_path):
    rows = [("wavs/X-1.wav", "one")]
    assert read(tmp_path, "audio|sentence\nwavs/X-1.wav|one\n") == (["audio", "sentence"], rows, [2])
    assert read(tmp_path, "what|words\nwavs/X-1.wav|one\n", ["words"])[0] == ["what", "words"]
    with pytest.raises(DataError, match="t.csv:1: has the column 'text' twice"):
        read(tmp_path, "audio|text|text\na.wav|b|c\n")


@pytest.mark.parametrize("content", ["Y-1|one|one\n", "X-1|one|two|three\n"])
def test_other_tables_are_refused_with_their_separator(tmp_path, content):
    with pytest.raises(DataError, match=r"t\.csv:1: \| separates its columns, and its first line, .-1\|one"):
        read(tmp_path, content)
