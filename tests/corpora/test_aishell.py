import io
import shutil
import tarfile

import pytest

from espnet_diverse.corpora import Selection, aishell, load_corpus
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.data.writing.formatting import format_data
from espnet_diverse.errors import ConfigError, DataError

TRANSCRIPT = "data_aishell/transcript/aishell_transcript_v0.8.txt"


@pytest.fixture
def add_line(aishell_tree):
    """Append a line to the transcripts of the tree."""

    def add(line: str) -> None:
        with (aishell_tree / TRANSCRIPT).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return add


@pytest.mark.parametrize("inner", [False, True])
def test_official_tree_gives_exactly_this(aishell_tree, inner):
    sets = aishell.prepare(aishell_tree / "data_aishell" if inner else aishell_tree)
    wavs = aishell_tree / "data_aishell" / "wav"
    assert sets == {
        "train": DataDir(
            wav_scp={
                "BAC009S0002W0122": f"{wavs}/train/S0002/BAC009S0002W0122.wav",
                "BAC009S0003W0121": f"{wavs}/train/S0003/BAC009S0003W0121.wav",
            },
            text={"BAC009S0002W0122": "而对楼市成交", "BAC009S0003W0121": "甚至出现交易几乎停滞"},
            utt2spk={"BAC009S0002W0122": "S0002", "BAC009S0003W0121": "S0003"},
        ),
        "dev": DataDir(
            wav_scp={"BAC009S0724W0121": f"{wavs}/dev/S0724/BAC009S0724W0121.wav"},
            text={"BAC009S0724W0121": "广州市房地产"},
            utt2spk={"BAC009S0724W0121": "S0724"},
        ),
        "test": DataDir(
            wav_scp={"BAC009S0764W0121": f"{wavs}/test/S0764/BAC009S0764W0121.wav"},
            text={"BAC009S0764W0121": "一二线城市"},
            utt2spk={"BAC009S0764W0121": "S0764"},
        ),
    }


def test_domains_become_tasks(aishell_tree):
    ids = ["BAC009S0002W0122", "BAC009S0003W0121", "BAC009S0724W0121", "BAC009S0764W0121"]
    (aishell_tree / "utt2domain").write_text("".join(f"{name} finance\n" for name in ids))
    assert aishell.prepare(aishell_tree)["test"].conditions["utt2domain"] == {"BAC009S0764W0121": "finance"}
    (aishell_tree / "utt2domain").write_text(f"{ids[0]} finance\n")
    with pytest.raises(DataError, match="^3 faults: .*utt2domain: BAC009S0003W0121: has no domain"):
        aishell.prepare(aishell_tree)


def test_missing_folder(tmp_path, aishell_tree):
    missing = tmp_path / "nowhere"
    with pytest.raises(DataError) as caught:
        aishell.prepare(missing)
    what = (
        f"no AISHELL-1 corpus in {missing}: there is no {missing}/data_aishell; give the folder that holds data_aishell"
    )
    assert str(caught.value) == what
    shutil.rmtree(aishell_tree / "data_aishell" / "wav" / "dev")
    what = (
        f"there is no {aishell_tree}/data_aishell/wav/dev; unpack that set, or prepare what is there: --sets train test"
    )
    with pytest.raises(DataError, match=what):
        aishell.prepare(aishell_tree)
    assert list(aishell.prepare(aishell_tree, Selection(sets=("train", "test")))) == ["train", "test"]
    (aishell_tree / "data_aishell" / "wav" / "S0002.tar.gz").touch()
    with pytest.raises(DataError, match="unpack the archives in wav/"):
        aishell.prepare(aishell_tree)
    (aishell_tree / TRANSCRIPT).unlink()
    with pytest.raises(DataError, match=f"there is no {aishell_tree}/{TRANSCRIPT}"):
        aishell.prepare(aishell_tree)


def test_set_without_audio(aishell_tree):
    (aishell_tree / "data_aishell/wav/dev/S0724/BAC009S0724W0121.wav").unlink()
    with pytest.raises(DataError, match="wav/dev: holds no <speaker>/<utterance>.wav; get the corpus again"):
        aishell.prepare(aishell_tree)


def test_audio_without_transcript(aishell_tree, write_wav):
    wav = write_wav(aishell_tree / "data_aishell/wav/train/S0002/BAC009S0002W0999.wav")
    with pytest.raises(DataError) as caught:
        aishell.prepare(aishell_tree)
    assert str(caught.value).startswith(f"{wav}: BAC009S0002W0999: audio without transcript in transcript/aishell_")
    dropped = aishell.prepare(aishell_tree, Selection(on_bad="drop"))["train"]
    what = f"audio without transcript in {aishell.TRANSCRIPT}; add it or remove the file"
    assert dropped.dropped == {"BAC009S0002W0999": what} and dropped.bad == {*dropped.dropped}
    assert "BAC009S0002W0999" not in dropped.wav_scp


def test_transcript_without_audio(aishell_tree, add_line):
    add_line("BAC009S0900W0001 没有 声音")
    what = "transcript without audio in wav/; add it or remove the line"
    with pytest.raises(DataError, match=f"aishell_transcript_v0.8.txt: BAC009S0900W0001: {what}"):
        aishell.prepare(aishell_tree)
    sets = aishell.prepare(aishell_tree, Selection(on_bad="drop"))
    assert sets["train"].dropped == {"BAC009S0900W0001": what}
    assert not sets["dev"].dropped


def test_empty_transcript(aishell_tree, add_line, write_wav):
    write_wav(aishell_tree / "data_aishell/wav/test/S0764/BAC009S0764W0999.wav")
    add_line("BAC009S0764W0999 ")
    with pytest.raises(DataError, match="v0.8.txt:5: empty transcript"):
        aishell.prepare(aishell_tree)
    dropped = aishell.prepare(aishell_tree, Selection(on_bad="drop"))["test"].dropped
    what = "aishell_transcript_v0.8.txt:5: empty transcript; add the text or remove the utterance"
    assert dropped == {"BAC009S0764W0999": what}


def test_a_damaged_copy_is_not_dropped(aishell_tree, add_line, tmp_path):
    for number in range(11):
        add_line(f"BAC009S0900W{number:04} 没有 声音")
    sets, drop = aishell.prepare(aishell_tree, Selection(on_bad="drop")), FormatOptions(on_bad="drop")
    what = "train: at least 11 of 13 utterances .84.62%. have faults, such as BAC009S0900W0000: transcript without"
    with pytest.raises(DataError, match=f"^{what}.*; at most 1.00% are left out: get the corpus again, or .*--max_bad"):
        format_data(sets, tmp_path / "data", drop)
    assert not (tmp_path / "data").exists()


def test_duplicate_ids(aishell_tree, add_line, write_wav):
    """The first row or recording stays where the others are left out; an utterance in two sets never is."""
    add_line("BAC009S0002W0122 又 一次")
    with pytest.raises(DataError, match="v0.8.txt:5: duplicate id 'BAC009S0002W0122', first on line 1"):
        aishell.prepare(aishell_tree)
    twice = write_wav(aishell_tree / "data_aishell/wav/train/S0003/BAC009S0002W0122.wav")
    with pytest.raises(DataError, match=f"{twice}: utterance BAC009S0002W0122 is also .*S0002/BAC009S0002W0122.wav"):
        aishell.prepare(aishell_tree)
    train = aishell.prepare(aishell_tree, Selection(on_bad="drop"))["train"]
    assert set(train.dropped) == {"BAC009S0002W0122-line5", "S0003-BAC009S0002W0122"}
    assert "S0002" in train.wav_scp["BAC009S0002W0122"] and train.text["BAC009S0002W0122"] != "又一次"
    twice.rename(aishell_tree / "data_aishell/wav/test/S0764/BAC009S0002W0122.wav")
    with pytest.raises(DataError, match="test/S0764/BAC009S0002W0122.wav: utterance .*; it may be in one set only"):
        aishell.prepare(aishell_tree)


def test_faults_of_lines_leave_out_their_utterances_alone(aishell_tree, add_line, write_wav):
    for number, text in enumerate(("坏\x92", "<unk> 坏"), start=1):
        write_wav(aishell_tree / f"data_aishell/wav/dev/S0724/BAC009S0724W100{number}.wav")
        add_line(f"BAC009S0724W100{number} {text}")
    with pytest.raises(DataError, match="^2 faults: .*v0.8.txt:5: transcript contains the control character U.0092"):
        aishell.prepare(aishell_tree)
    expected = aishell.prepare(aishell_tree, Selection(on_bad="drop"))["dev"]
    assert list(expected.text) == ["BAC009S0724W0121"]
    assert list(expected.dropped) == ["BAC009S0724W1001", "BAC009S0724W1002"]
    (dev,) = aishell.prepare(aishell_tree, Selection(on_bad="drop", sets=("test",))).values()
    assert not dev.dropped  # which are of another set


def test_hidden_files_of_macos_are_passed_over(aishell_tree):
    expected = aishell.prepare(aishell_tree)
    wav = aishell_tree / "data_aishell" / "wav"
    for name in (".DS_Store", "train/.DS_Store", "train/S0002/._BAC009S0002W0122.wav", "train/._S0002/x.wav"):
        (wav / name).parent.mkdir(exist_ok=True)
        (wav / name).write_bytes(b"\0\5\x16\7")
    assert aishell.prepare(aishell_tree) == expected


def test_wrong_encoding(aishell_tree):
    file = aishell_tree / TRANSCRIPT
    file.write_bytes(file.read_text(encoding="utf-8").encode("gbk"))
    with pytest.raises(DataError, match=r"v0.8.txt:1: not utf-8 at byte offset 17: GBK would be "):
        aishell.prepare(aishell_tree)


def test_unknown_corpus():
    with pytest.raises(ConfigError, match=r"unknown corpus 'aishel'; did you mean 'aishell'\?$"):
        load_corpus("aishel")
    for name in ("csv", "recordings.TSV"):
        with pytest.raises(
            ConfigError, match=f"unknown corpus '{name}'; a csv, tsv or jsonl file is prepared by: .* table"
        ):
            load_corpus(name)
    assert load_corpus("aishell") is aishell


def test_download_unpacks_the_archives_of_the_speakers(tmp_path, aishell_tree, serve):
    """The release is a tgz that holds one tar.gz a speaker, with paths from the set's name on."""
    expected = aishell.prepare(aishell_tree)["train"].text
    wav = aishell_tree / "data_aishell" / "wav"
    for speaker in sorted(wav.glob("*/*")):
        with tarfile.open(wav / f"{speaker.name}.tar.gz", "w:gz") as tar:
            tar.add(speaker, f"{speaker.parent.name}/{speaker.name}")
    for name in ("train", "dev", "test"):
        shutil.rmtree(wav / name)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(aishell_tree / "data_aishell", "data_aishell")
    server = serve(packed.getvalue())
    for _ in range(2):
        corpus_dir = aishell.download(tmp_path / "downloads", url=server.url, md5=None)
        assert aishell.prepare(corpus_dir)["train"].text == expected
    assert len(server.ranges) == 1
    assert not list(corpus_dir.rglob("*.tar.gz"))
    assert sorted(entry.name for entry in corpus_dir.parent.iterdir()) == ["aishell", "data_aishell.tgz"]
