import shutil

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, covost2
from espnet_diverse.corpora.covost2 import read_tsv
from espnet_diverse.data.faults import refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import ConfigError, DataError

HEADER = "client_id\tpath\tsentence\tup_votes"
CLIENT = "ab12" * 32
GERMAN = {
    "train": [("a", "Das ist „gut“."), ("b", '"Ja", sagte er.')],
    "dev": [("c", "Wie geht's?")],
    "test": [("d", "Auf Wiedersehen")],
}
ENGLISH = {"a": 'This is \\"good\\".', "b": "“Yes”, he said.", "c": "How are you?", "d": "Goodbye"}


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def tree(tmp_path, write_wav):
    """German of Common Voice with CoVoST's table into English, and Chinese without one."""
    root = tmp_path / "cv"
    for folder, sets in {"de": GERMAN, "zh-CN": {name: [(f"z{name}", "你好，世界。")] for name in GERMAN}}.items():
        rows = {name: [f"{CLIENT}\t{clip}.mp3\t{text}\t2" for clip, text in rows] for name, rows in sets.items()}
        for clip, _ in (pair for pairs in sets.values() for pair in pairs):
            write_wav(root / folder / "clips" / f"{clip}.mp3", format="MP3", subtype=None)
        for name in sets:
            write(root / folder / f"{name}.tsv", HEADER, *rows[name])
        write(root / folder / "validated.tsv", HEADER, *(row for each in rows.values() for row in each))
    splits = {"a": "train", "b": "train_covost", "c": "dev", "d": "test"}
    rows = [f"{clip}.mp3\t{text}\t{splits[clip]}" for clip, text in ENGLISH.items()]
    write(root / "de" / "covost_v2.de_en.tsv", "path\ttranslation\tsplit", *rows, "e.mp3\tunused\tdev_covost")
    return root


ST = Selection(task="st")


def test_translation_gives_exactly_this(tree):
    sets = covost2.prepare(tree, ST)
    assert sets["train"] == DataDir(
        wav_scp={"de-en-a": f"{tree}/de/clips/a.mp3", "de-en-b": f"{tree}/de/clips/b.mp3"},
        text={"de-en-a": 'This is "good".', "de-en-b": "“Yes”, he said."},
        utt2spk={"de-en-a": "ab12ab12ab12", "de-en-b": "ab12ab12ab12"},
        src_text={"de-en-a": "das ist gut", "de-en-b": "ja sagte er"},
        conditions={
            "utt2lang": {"de-en-a": "de", "de-en-b": "de"},
            "utt2tgtlang": {"de-en-a": "en", "de-en-b": "en"},
        },
    )
    assert sets["dev"].text == {"de-en-c": "How are you?"}
    assert sets["test"].text == {"de-en-d": "Goodbye"}


def test_a_joint_table_is_read_once_for_all_sets(tree, monkeypatch):
    read = []
    monkeypatch.setattr(covost2, "read_tsv", lambda path, columns: read.append(path.name) or read_tsv(path, columns))
    assert list(covost2.prepare(tree, ST)) == ["train", "dev", "test"]
    assert sorted(read) == ["covost_v2.de_en.tsv", "validated.tsv"]


def test_recognition_takes_covosts_splits_or_common_voices(tree):
    sets = covost2.prepare(tree)
    assert sets["train"].text == {"de-a": "das ist gut", "de-b": "ja sagte er", "zh-ztrain": "你好 世界"}
    assert sets["train"].conditions == {"utt2lang": {"de-a": "de", "de-b": "de", "zh-ztrain": "zh"}}
    assert not sets["train"].src_text
    (tree / "de" / "covost_v2.de_en.tsv").unlink()
    (tree / "de" / "train.tsv").write_text(f"{HEADER}\n{CLIENT}\tb.mp3\tNur dies\t2\n")
    assert covost2.prepare(tree, Selection(languages=("de",)))["train"].text == {"de-b": "nur dies"}


def test_transcripts_as_written(tree):
    sets = covost2.prepare(tree, Selection(transcripts="written", languages=("de",)))
    assert sets["train"].text == {"de-a": "Das ist „gut“.", "de-b": '"Ja", sagte er.'}


def test_tables_of_the_splits_come_first_and_may_lie_beside(tree):
    for name, clip in {"train": "d", "dev": "c", "test": "a"}.items():
        row = f'{clip}.mp3\tEin \\"Satz\\"\tA sentence\tsomeone'
        write(tree / "de" / f"covost_v2.de_en.{name}.tsv", "path\tsentence\ttranslation\tclient_id", row)
    sets = covost2.prepare(tree, ST)
    assert (sets["train"].text, sets["train"].src_text) == ({"de-en-d": "A sentence"}, {"de-en-d": "ein satz"})
    assert sets["train"].utt2spk == {"de-en-d": "someone"}
    for table in (tree / "de").glob("covost*"):
        shutil.move(table, tree)
    assert covost2.prepare(tree, ST) == sets


def test_english_is_translated_into_several_languages(tree):
    """Their folders have regions, their codes need not."""
    (tree / "de").rename(tree / "en")
    table = (tree / "en" / "covost_v2.de_en.tsv").read_text()
    for target in ("de", "zh-CN"):
        (tree / "en" / f"covost_v2.en_{target}.tsv").write_text(table)
    sets = covost2.prepare(tree, ST)
    assert sorted(sets["test"].text) == ["en-de-d", "en-zh-d"]
    for named in ("en-zh", "en-zh-CN", "en_zh-CN"):
        only = covost2.prepare(tree, Selection(task="st", pairs=(named,)))
        assert only["test"].conditions["utt2tgtlang"] == {"en-zh-d": "zh"}
    zero_shot = covost2.prepare(tree, Selection(task="st", pairs=("en-de",), zero_shot=("en-zh",)))
    assert {name: sorted(data.text) for name, data in zero_shot.items()} == {
        "train": ["en-de-a", "en-de-b"],
        "dev": ["en-de-c"],
        "test": ["en-de-d", "en-zh-d"],
    }


def test_recognition_of_english_takes_the_splits_of_any_table(tree):
    (tree / "de").rename(tree / "en")
    (tree / "en" / "covost_v2.de_en.tsv").rename(tree / "en" / "covost_v2.en_zh-CN.tsv")
    write(tree / "en" / "train.tsv", HEADER, f"{CLIENT}\tb.mp3\tOnly this\t2")
    assert sorted(covost2.prepare(tree, Selection(languages=("en",)))["train"].text) == ["en-a", "en-b"]


def test_the_joiners_of_persian_stay(tree):
    (tree / "de").rename(tree / "fa")
    (tree / "fa" / "covost_v2.de_en.tsv").unlink()
    write(tree / "fa" / "train.tsv", HEADER, f"{CLIENT}\ta.mp3\tمی\u200cروم.\t2")
    assert covost2.prepare(tree, Selection(languages=("fa",)))["train"].text == {"fa-a": "می\u200cروم"}


def test_a_converted_clip_is_taken(tree, write_wav):
    write_wav(tree / "de" / "clips" / "a.wav")
    assert covost2.prepare(tree, ST)["train"].wav_scp["de-en-a"].endswith("clips/a.wav")


def test_row_without_clip(tree):
    (tree / "de" / "clips" / "b.mp3").unlink()
    with pytest.raises(DataError) as caught:
        covost2.prepare(tree, ST)
    table, what = tree / "de" / "covost_v2.de_en.tsv", f"clip b.mp3 is not in {tree}/de/clips; get it"
    assert str(caught.value) == f"{table}:3: {what}"
    sets = covost2.prepare(tree, Selection(task="st", on_bad="drop"))
    assert sets["train"].dropped == {"de-en-b": f"covost_v2.de_en.tsv:3: {what}"}
    assert list(sets["train"].text) == ["de-en-a"]


def test_faults_of_rows_and_empty_clips_leave_out_their_utterances_alone(tree, tmp_path, write_wav, capsys):
    """As empty clips of early releases of Common Voice, which the tables of CoVoST list."""
    table = tree / "de" / "covost_v2.de_en.tsv"
    rows = table.read_text().splitlines()
    write(table, *rows, "a.mp3\tAgain\ttrain", "b.mp3\ttoo few", "e.mp3\tSo \x92\ttrain", "f.mp3\tEmpty\ttrain")
    validated = tree / "de" / "validated.tsv"
    write(validated, *validated.read_text().splitlines(), *(f"{CLIENT}\t{name}.mp3\tSo\t2" for name in "ef"))
    for name in "ef":
        (tree / "de" / "clips" / f"{name}.mp3").touch()
    options = [
        "prepare",
        "covost2",
        str(tree),
        "--task",
        "st",
        "--sets",
        "train",
        "--output_dir",
        str(tmp_path / "out"),
    ]
    train = covost2.prepare(tree, Selection(task="st", on_bad="drop"))["train"]
    assert {*train.dropped} == {"de-en-a-line7", "de-covost_v2.de_en-line8", "de-en-e"} == train.bad
    for name in "ab":
        write_wav(tree / "de" / "clips" / f"{name}.wav")
    assert main(options) == 1 and "--on_bad drop leaves out" in capsys.readouterr().err
    assert main([*options, "--on_missing", "drop"]) == 0  # the former name of the option
    assert "train: 2 utterances" in (out := capsys.readouterr().out) and "): 66.67%, 4 with faults" in out
    assert "de-en-f\t" in (tmp_path / "out/train/dropped.tsv").read_text()


def test_clip_that_common_voice_does_not_know(tree):
    rows = (tree / "de" / "validated.tsv").read_text().splitlines()
    write(tree / "de" / "validated.tsv", *(row for row in rows if "\tc.mp3" not in row))
    with pytest.raises(DataError, match=f"de_en.tsv:4: clip c.mp3 is not in {tree}/de/validated.tsv; get it"):
        covost2.prepare(tree, ST)


def test_without_text_an_utterance_is_dropped(tree):
    write(tree / "de" / "covost_v2.de_en.tsv", "path\ttranslation\tsplit", "a.mp3\t \ttrain", "b.mp3\tYes\ttrain")
    assert covost2.prepare(tree, ST)["train"].dropped == {"de-en-a": "empty translation"}
    write(tree / "zh-CN" / "train.tsv", HEADER, f"{CLIENT}\tztrain.mp3\t。\t2", f"{CLIENT}\tzdev.mp3\t好\t2")
    (tree / "zh-CN" / "dev.tsv").write_text(HEADER + "\n")
    train = covost2.prepare(tree, Selection(languages=("zh",)))["train"]
    assert train.dropped == {"zh-ztrain": "no words in transcript '。'"}


def test_the_same_clip_twice(tree):
    table = tree / "de" / "covost_v2.de_en.tsv"
    table.write_text(table.read_text() + "a.mp3\tAgain\ttrain\n")
    with pytest.raises(DataError, match="de_en.tsv:7: clip a.mp3 is listed twice; remove a line"):
        covost2.prepare(tree, ST)
    table.write_text(table.read_text().replace("Again\ttrain", "Again\ttest"))
    with pytest.raises(DataError, match="^test: de-en-a: .*/clips/a.mp3 is also in train; a clip may be in one set"):
        covost2.prepare(tree, ST)


def test_missing_columns(tree):
    write(tree / "de" / "covost_v2.de_en.tsv", "path\ttranslation", "a.mp3\tYes")
    with pytest.raises(DataError, match="de_en.tsv:1: has no column 'split'; it has path, translation$"):
        covost2.prepare(tree, ST)


def test_direction_without_training_data(tree):
    table = tree / "de" / "covost_v2.de_en.tsv"
    table.write_text(table.read_text().replace("\ttrain", "\tdev"))
    with pytest.raises(DataError, match=f"^{tree}: de-en should be trained but has no training data; remove it, or"):
        covost2.prepare(tree, Selection(task="st", pairs=("de-en",)))


def test_unknown_languages_and_places(tree, tmp_path):
    with pytest.raises(ConfigError, match=f"^{tree}: there is no language 'fr'; there are: de zh$"):
        covost2.prepare(tree, Selection(languages=("fr",)))
    with pytest.raises(ConfigError, match=f"^{tree}: there is no direction 'zh-en'; there are: de-en$"):
        covost2.prepare(tree, Selection(task="st", pairs=("zh-CN-en",)))
    with pytest.raises(DataError, match="no Common Voice in .*: there is no folder such as de/clips; unpack each"):
        covost2.prepare(tmp_path / "elsewhere")


def test_directions_of_the_release():
    assert (len(covost2.INTO_ENGLISH), len(covost2.FROM_ENGLISH), len(set(covost2.PAIRS))) == (21, 15, 36)


@pytest.fixture
def table(tmp_path):
    """table(content) -> the file."""

    def write(content):
        path = tmp_path / "t.tsv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_columns_come_in_the_order_asked_for(table):
    rows, _ = read_tsv(table("path\tsentence\tage\na.mp3\tHallo\t\nb.mp3\tWelt\tfifties\n"), ("sentence", "path"))
    assert rows == [(2, ("Hallo", "a.mp3")), (3, ("Welt", "b.mp3"))]


def test_quotation_marks_are_literal_and_backslashes_escape(table):
    rows, _ = read_tsv(table('sentence\n"Halb\n""Ja"", sagte er.\n\\"Nein\\", \\\\ ich.\n'), ("sentence",))
    assert [row.values[0] for row in rows] == ['"Halb', '""Ja"", sagte er.', '"Nein", \\ ich.']


def test_line_ends_blank_lines_and_byte_order_mark(table):
    rows, _ = read_tsv(table("\ufeffpath\tsentence\r\n\r\na.mp3\tdoes\u2028not break\r\n"), ("path", "sentence"))
    assert rows == [(3, ("a.mp3", "does\u2028not break"))]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", ": is empty"),
        ("path\tage\n", ":1: has no column 'sentence'; it has path, age"),
        ("path\tsentence\na.mp3\n", ":2: has 1 fields, and the header has 2, path sentence; tabs"),
        ("path\tsentence\na.mp3\tone\ttwo\n", ":2: has 3 fields, and the header has 2, path sentence; tabs"),
        (b"path\tsentence\na.mp3\tcaf\xe9\n", ":2: not utf-8 at byte offset "),
    ],
)
def test_faults(table, content, what):
    path = table(content)
    with pytest.raises(DataError) as caught:
        refuse(read_tsv(path, ("path", "sentence"))[1])
    assert str(caught.value).startswith(f"{path}{what}")


def test_missing_table(tmp_path):
    with pytest.raises(DataError, match=f"^{tmp_path}/t.tsv: cannot be read"):
        read_tsv(tmp_path / "t.tsv", ("path",))
