"""A table of one's own recordings: exactly the expected sets; each error by its text."""

import json
import re
from pathlib import Path

import pytest

from espnet_diverse.audio.segments import Segment
from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, table
from espnet_diverse.data.faults import FaultsError
from espnet_diverse.data.kaldi import DataDir, read_data_dir
from espnet_diverse.errors import ConfigError, DataError


@pytest.fixture
def write(tmp_path, write_wav):
    """write(header, *rows) -> the table, beside the recordings of half a second that its rows begin with."""

    def make(header, *rows, name="mine.csv"):
        for row in rows:
            path = tmp_path / row.partition(",")[0]
            if path.suffix == ".wav" and not path.exists() and "missing" not in path.name:
                write_wav(path, rate=22050)
        (tmp_path / name).write_text("".join(f"{line}\n" for line in (header, *rows)), encoding="utf-8")
        return tmp_path / name

    return make


def test_named_sets_give_exactly_this(tmp_path, write, caplog):
    path = write(
        "path,Sentence,speaker,lang,domain,split,likes",
        'a/one.wav,"Good morning, all.",Anna M,en,home,train,3',
        "a/two.wav,Bye!,ben,en,shop,validation,1",
        "three.wav,...,ben,en,shop,test,1",
        "four.wav,Yes,,en,shop,test,1",
    )
    sets = table.prepare(path)
    assert sets["train"] == DataDir(
        wav_scp={"a-one": f"{tmp_path}/a/one.wav"},
        text={"a-one": "good morning all"},
        utt2spk={"a-one": "Anna_M"},
        conditions={"utt2lang": {"a-one": "en"}, "utt2domain": {"a-one": "home"}},
    )
    assert sets["dev"].text == {"a-two": "bye"}
    assert sets["test"].utt2spk == {"four": "four"}
    assert sets["test"].dropped == {"three": "no words in transcript '...'"}
    assert caplog.messages == [
        f"notice: {path}: columns that are not read: likes",
        f"notice: {path}: speakers in several sets: ben",
    ]


def test_translations_and_parts_of_recordings(tmp_path, write):
    path = write(
        "audio,text,translation,lang,tgt_lang,start,end",
        "one.wav,Ja.,Yes.,de,en,0.1,0.3",
        "one.wav,Ja.,Oui.,de,fr,0.1,0.3",
        "two.wav,Nein.,No.,de,en,,",
        "two.wav,Nein.,Non.,de,fr,0.2,",
    )
    data = table.prepare(path, Selection(task="st", sets=("test",)))["test"]
    assert data.wav_scp == {"one": f"{tmp_path}/one.wav", "two": f"{tmp_path}/two.wav"}
    assert data.segments == {
        "one-0000100-0000300-en": Segment("one", 0.1, 0.3),
        "one-0000100-0000300-fr": Segment("one", 0.1, 0.3),
        "two-en": Segment("two", 0.0, 0.5),
        "two-0000200-end-fr": Segment("two", 0.2, 0.5),
    }
    assert data.text["two-en"] == "No." and data.src_text["two-en"] == "nein"
    assert set(data.conditions["utt2tgtlang"].values()) == {"en", "fr"}


def test_a_manifest_of_nemo_has_parts(tmp_path, write, write_wav):
    write_wav(tmp_path / "one.wav", rate=22050)
    rows = ({"audio_filepath": "one.wav", "offset": start, "duration": 0.2, "text": "ja"} for start in (0, 0.2))
    path = write(*map(json.dumps, rows), name="manifest.jsonl")
    data = table.prepare(path, Selection(sets=("train",)))["train"]
    assert data.segments == {
        "one-0000000-0000200": Segment("one", 0.0, 0.2),
        "one-0000200-0000400": Segment("one", 0.2, 0.4),
    }


def test_without_parts_one_file_may_have_several_translations(tmp_path, write):
    rows = ["one.wav,Ja.,Yes.,en", "one.wav,Ja.,Oui.,fr"]
    path = write("audio,text,translation,tgt_lang", *rows)
    data = table.prepare(path, Selection(task="st", sets=("dev",)))["dev"]
    assert data.wav_scp == {"one-en": f"{tmp_path}/one.wav", "one-fr": f"{tmp_path}/one.wav"} and not data.segments


def speakers(sets):
    return {name: set(data.utt2spk.values()) for name, data in sets.items()}


def test_drawn_sets_share_no_speaker_and_no_recording(write):
    rows = [f"{number:02d}.wav,x,{speaker}" for number, speaker in enumerate("aabbccddeeff" * 3)]
    found = speakers(table.prepare(write("audio,text,speaker", *rows)))
    assert sum(map(len, found.values())) == len(set.union(*found.values())) == 6
    # a and b speak in one recording, so they stay together
    rows = [f"{number:02d}.wav,x,{speaker},," for number, speaker in enumerate("aabbccdd")]
    path = write("audio,text,speaker,start,end", *rows, "both.wav,x,a,0,0.2", "both.wav,x,b,0.2,0.4")
    sets = table.prepare(path, Selection(split_seed=3))
    assert sum({"a", "b"} <= names for names in speakers(sets).values()) == 1
    assert sum(bool(data.wav_scp.keys() & {"both"}) for data in sets.values()) == 1


def test_a_lone_speaker_is_divided_by_file(write):
    rows = [f"{number}.wav,x,anna" for number in range(10)]
    path = write("audio,text,speaker", *rows)
    with pytest.raises(DataError, match="^1 speaker cannot be divided into train, dev, test; "):
        table.prepare(path)
    sets = table.prepare(path, Selection(split_by="audio"))
    assert {name: len(data.text) for name, data in sets.items()} == {"train": 8, "dev": 1, "test": 1}


@pytest.mark.parametrize(
    ("rows", "options", "what"),
    [
        (["a.wav,x,train"], {}, "has no rows for the set dev; add some, or prepare only the others with --sets train"),
        (
            ["a.wav,x,train", "b.wav,.,test"],
            {"sets": ("test",)},
            "has no usable rows for the set test; add some",
        ),
        ([], {"sets": ("test",)}, "has no rows for the set test; add some"),
    ],
)
def test_sets_without_rows(write, rows, options, what):
    path = write("audio,text,split", *rows)
    with pytest.raises(DataError) as caught:
        table.prepare(path, Selection(**options))
    assert str(caught.value) == f"{path}: {what}"


def test_faults_of_the_file_and_of_values_are_one_error(write):
    path = write("audio,text", "a.wav,x,y", "missing.wav,x", "b.wav,<s>")
    with pytest.raises(DataError, match="^3 faults: ") as caught:
        table.prepare(path)
    assert [fault.where for fault in caught.value.faults] == [2, 3, 4]
    path.write_text("audio,text\na.wav\n")
    with pytest.raises(DataError, match="mine.csv:2: has 1 fields, and the header has 2"):
        table.prepare(path)


def test_audio_that_is_none_is_a_fault_of_its_line(tmp_path, write):
    path = write("audio,text,start", "a.wav,x,0.1", "b.txt,x,0.1")
    (tmp_path / "b.txt").write_text("no audio")
    with pytest.raises(DataError, match="mine.csv:3: .*b.txt: not readable as audio"):
        table.prepare(path, Selection(sets=("test",)))


def test_a_start_behind_the_end_of_the_audio_is_a_fault_of_its_line(write):
    path = write("audio,text,start", "a.wav,x,0.1", "b.wav,x,7.5")
    with pytest.raises(DataError, match=r"mine.csv:3: starts at 7.5 s, and .*b.wav ends at [0-9.]+ s$"):
        table.prepare(path, Selection(sets=("test",)))


def test_the_root_of_the_file_system_is_no_audio(tmp_path, write):
    with pytest.raises(DataError, match="mine.csv:2: audio '/': / does not exist; add it"):
        table.prepare(write("audio,text", "/,Hello."))


def test_a_user_prepares_it(tmp_path, write, capsys):
    rows = [f"{number}.wav,Hello {number}.,s{number % 4}" for number in range(12)]
    path = write("audio,words,who", *rows)
    options = ["--columns", "text=words", "speaker=who", "--rate", "8000", "--speed_perturb", "0.9", "1.0"]
    assert main(["prepare", "table", str(path), "--output_dir", str(tmp_path / "data"), *options]) == 0
    printed = capsys.readouterr().out
    assert "train: 12 utterances, 0.00 hours, 4 speakers, 0 dropped" in printed
    assert "test: 3 utterances of 22050 Hz converted to 8 kHz mono" in printed
    assert len(read_data_dir(tmp_path / "data" / "dev").text) == 3
    assert main(["prepare", "table", str(path), "--output_dir", str(tmp_path / "data"), "--columns", "text"]) == 1
    assert "--columns text: must be NAME=VALUE, each name once" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="^column words=text: there is no 'words'"):
        table.prepare(path, Selection(columns=(("words", "text"),)))


@pytest.fixture
def faulty(tmp_path, write):
    """A table with a faulty row, a truncated recording and one that is none."""
    path = write("audio,text,start,split", "a.wav,Yes,,train", "b.wav,No,x,train", "c.wav,So,,train", "d.wav,Ja,,dev")
    whole = (tmp_path / "c.wav").read_bytes()
    (tmp_path / "c.wav").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "d.wav").write_text("no audio")
    return path


def test_faults_of_rows_and_of_audio_are_listed_at_once(faulty, tmp_path):
    with pytest.raises(FaultsError) as caught:
        table.prepare(faulty, Selection(sets=("train", "dev")))
    assert [fault.where for fault in caught.value.faults] == [3, 4, 5]
    for what in ("start 'x': must be seconds", "c.wav: holds .* truncated", "d.wav: not readable as audio"):
        assert re.search(what, str(caught.value))


def test_rows_and_recordings_with_faults_are_left_out(faulty, tmp_path, caplog, capsys, write_wav):
    write_wav(tmp_path / "e.wav")
    faulty.write_text(faulty.read_text() + "e.wav,Oui,,dev\n")
    arguments = ["prepare", "table", str(faulty), "--output_dir", str(tmp_path / "data"), "--sets", "train", "dev"]
    assert main(arguments) == 1 and not (tmp_path / "data" / "train").exists()
    caplog.clear()
    assert main([*arguments, "--on_bad", "drop"]) == 0
    train, dev = (read_data_dir(tmp_path / "data" / name) for name in ("train", "dev"))
    assert (train.text, dev.text) == ({"a": "yes"}, {"e": "oui"})
    listed = "".join((tmp_path / "data" / name / "dropped.tsv").read_text() for name in ("train", "dev"))
    for what in ("row3\tstart 'x': must be", "c\t.*c.wav: holds", "d\t.*d.wav: not readable as audio"):
        assert re.search(what, listed)
    assert f"notice: {faulty}: 1 rows with faults are left out; dropped.tsv lists them" in caplog.messages
    assert "train: 1 utterances, 0.00 hours, 1 speakers, 2 dropped" in capsys.readouterr().out


def test_a_header_in_another_encoding_is_told_with_the_column_that_is_missed(tmp_path):
    (tmp_path / "mine.csv").write_bytes("音频,text\na.wav,Yes\n".encode("gbk"))
    with pytest.raises(DataError, match="^2 faults: .*:1: not utf-8 at byte offset 0: GBK would be .*no column"):
        table.prepare(tmp_path / "mine.csv")


def test_parts_of_recordings_that_cannot_be_read_are_left_out(tmp_path, write):
    path = write("audio,text,start,split", "a.wav,Yes,0.1,test", "b.wav,No,0.1,test", "c.wav,So,0.7,test")
    (tmp_path / "b.wav").write_text("no audio")
    (data,) = table.prepare(path, Selection(sets=("test",), on_bad="drop")).values()
    assert list(data.text) == list(data.segments) == ["a-0000100-end"]
    assert "not readable" in data.dropped["b-0000100-end"] and "ends at 0.5 s" in data.dropped["c-0000700-end"]


def test_audio_may_be_in_another_folder(tmp_path, write, write_wav, monkeypatch):
    (tmp_path / "clips").mkdir()
    write_wav(tmp_path / "clips" / "x.wav")
    path = write("path,sentence", "missing.wav,Yes")
    path.write_text("path,sentence\nx.wav,Yes\n")
    monkeypatch.chdir(tmp_path)
    (data,) = table.prepare(path, Selection(sets=("test",), audio_dir=Path("clips"))).values()
    assert data.wav_scp == {"x": f"{tmp_path}/clips/x.wav"}
    arguments = ["prepare", "table", str(path), "--output_dir", "data", "--sets", "test", "--audio_dir", "clips"]
    assert main(arguments) == 0
