import io
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
from references.converted_audio import level, run_ffmpeg
from references.data_fixtures import tone

from espnet_diverse.audio.segments import Segment
from espnet_diverse.corpora import Selection, europarl_st
from espnet_diverse.data.kaldi import DataDir, read_data_dir
from espnet_diverse.data.writing.formatting import format_data
from espnet_diverse.errors import ConfigError, DataError

SPEECHES = {"train": "en.20080924.31.3-243", "dev": "en.20081013.4.1-018", "test": "en.20090112.2.3-007"}
TEXTS = {
    "en": ["Madam President, the vote.", "It is clear."],
    "de": ["Frau Präsidentin! Die Abstimmung.", "Es ist klar."],
    "fr": ["Madame la Présidente, le vote.", "C'est clair."],
}
ST = Selection(task="st")


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def tree(tmp_path, write_wav):
    """English into German and French: a speech of one second and two segments in each set; returns v1.1."""
    root = tmp_path / "europarl" / "v1.1"
    for name, speech in SPEECHES.items():
        write_wav(root / "en" / "audios" / f"{speech}.wav", 1.0)
        for target in ("de", "fr"):
            folder = root / "en" / target / name
            write(folder / "segments.lst", f"{speech} 0.0 0.5", f"{speech} 0.5 1.0")
            write(folder / "segments.en", *TEXTS["en"])
            write(folder / f"segments.{target}", *TEXTS[target])
            write(folder / "speeches.lst", speech)
            write(folder / "speakers.lst", f"MEP_1_{name} Jones")
    return root


def test_translation_gives_exactly_this(tree):
    train = europarl_st.prepare(tree.parent, Selection(task="st", pairs=("en-de",)))["train"]
    one, two = (f"en-de-{SPEECHES['train']}_{times}" for times in ("0000000_0000500", "0000500_0001000"))
    assert train == DataDir(
        wav_scp={SPEECHES["train"]: f"{tree}/en/audios/{SPEECHES['train']}.wav"},
        text={one: TEXTS["de"][0], two: TEXTS["de"][1]},
        utt2spk={one: "MEP_1_train_Jones", two: "MEP_1_train_Jones"},
        segments={one: Segment(SPEECHES["train"], 0.0, 0.5), two: Segment(SPEECHES["train"], 0.5, 1.0)},
        src_text={one: "madam president the vote", two: "it is clear"},
        conditions={"utt2lang": {one: "en", two: "en"}, "utt2tgtlang": {one: "de", two: "de"}},
    )


def test_all_directions_and_zero_shot(tree):
    sets = europarl_st.prepare(tree, ST)
    assert {name: len(data.text) for name, data in sets.items()} == {"train": 4, "dev": 4, "test": 4}
    sets = europarl_st.prepare(tree, Selection(task="st", zero_shot=("en-fr",)))
    assert {name: set(data.conditions["utt2tgtlang"].values()) for name, data in sets.items()} == {
        "train": {"de"},
        "dev": {"de"},
        "test": {"de", "fr"},
    }


def test_recognition_takes_a_speech_once(tree):
    """The French direction cuts the same speech differently, and has one of its own."""
    own = "en.20100101.1.1-001"
    (tree / "en" / "audios" / f"{own}.wav").hardlink_to(tree / "en" / "audios" / f"{SPEECHES['train']}.wav")
    folder = tree / "en" / "fr" / "train"
    write(folder / "segments.lst", f"{SPEECHES['train']} 0.0 1.0", f"{own} 0.0 0.7")
    sets = europarl_st.prepare(tree)
    assert sorted(sets["train"].segments.values()) == [
        Segment(SPEECHES["train"], 0.0, 0.5),
        Segment(SPEECHES["train"], 0.5, 1.0),
        Segment(own, 0.0, 0.7),
    ]
    assert sets["train"].conditions["utt2lang"][f"{own}_0000000_0000700"] == "en"
    assert sets["train"].utt2spk[f"{own}_0000000_0000700"] == own  # speakers.lst does not know it
    assert sets["train"].conditions.keys() == {"utt2lang"}
    assert not sets["train"].src_text


def test_recognition_reads_each_file_once(tree, monkeypatch):
    read, scan = Counter(), europarl_st.read_lines
    monkeypatch.setattr(europarl_st, "read_lines", lambda path, *more: (read.update([path]), scan(path, *more))[1])
    europarl_st.prepare(tree)
    assert set(read.values()) == {1}


def test_recognition_trains_on_no_test_speech_of_other_directions(tree):
    write(tree / "en" / "de" / "train" / "segments.lst", f"{SPEECHES['test']} 0.0 0.5", f"{SPEECHES['train']} 0.5 1.0")
    sets = europarl_st.prepare(tree)
    assert list(sets["train"].segments.values()) == [Segment(SPEECHES["train"], 0.5, 1.0)]
    assert {segment.recording for segment in sets["test"].segments.values()} == {SPEECHES["test"]}


def test_recognition_trains_on_no_test_speech_of_a_faulty_set(tree):
    write(tree / "en" / "de" / "train" / "segments.lst", f"{SPEECHES['test']} 0.0 0.5", f"{SPEECHES['train']} 0.5 1.0")
    for target in ("de", "fr"):
        write(tree / "en" / target / "test" / f"segments.{target}", "one line too few")
    (tree / "en" / "audios" / f"{SPEECHES['dev']}.wav").unlink()
    only_train = Selection(sets=("train",))
    (data,) = europarl_st.prepare(tree, only_train).values()
    assert list(data.segments.values()) == [Segment(SPEECHES["train"], 0.5, 1.0)]
    (tree / "en" / "fr" / "test" / "segments.lst").unlink()
    with pytest.raises(DataError, match="fr/test/segments.lst"):
        europarl_st.prepare(tree, only_train)


def test_transcripts_as_written(tree):
    sets = europarl_st.prepare(tree, Selection(transcripts="written"))
    assert list(sets["dev"].text.values()) == TEXTS["en"]


def test_parallel_files_of_different_length(tree):
    folder = tree / "en" / "de" / "dev"
    write(folder / "segments.de", "Nur ein Satz.")
    what = "has 1 lines, and segments.lst has 2; parallel files are equally long: get both again"
    with pytest.raises(DataError) as caught:
        europarl_st.prepare(tree, ST)
    assert str(caught.value) == f"{folder}/segments.de: {what}"
    write(folder / "segments.de", *TEXTS["de"])
    write(folder / "speakers.lst", "one", "two")
    with pytest.raises(DataError, match=f"^{folder}/speakers.lst: has 2 lines, and speeches.lst has 1"):
        europarl_st.prepare(tree, ST)


def test_wrong_segments(tree):
    folder = tree / "en" / "de" / "train"
    write(folder / "segments.lst", f"{SPEECHES['train']} 0.5 0.0", f"{SPEECHES['train']} half 1.0")
    with pytest.raises(DataError) as caught:
        europarl_st.prepare(tree, ST)
    assert str(caught.value).startswith(
        f"2 faults: {folder}/segments.lst:1: segment ends at 0.0 s, not after its start"
    )
    assert f"{folder}/segments.lst:2: segment '{SPEECHES['train']} half 1.0' is invalid" in str(caught.value)
    write(folder / "segments.lst", f"{SPEECHES['train']} 0.0 0.5", f"{SPEECHES['train']} 0.0 0.5")
    with pytest.raises(DataError, match="segments.lst:2: this segment occurs twice; remove one from all parallel"):
        europarl_st.prepare(tree, ST)


def test_the_last_part_of_an_address_names_the_speaker(tree):
    folder = tree / "en" / "de" / "train"
    write(folder / "speakers.lst", "http://www.europarl.europa.eu/meps/en/1/ANN_LEE/")
    assert set(europarl_st.prepare(tree, ST)["train"].utt2spk.values()) == {"ANN_LEE", "MEP_1_train_Jones"}


def test_faults_of_lines_leave_out_their_utterances_alone(tree):
    folder, speech = tree / "en" / "de" / "train", SPEECHES["train"]
    write(folder / "segments.lst", f"{speech} 0.0 0.5", f"{speech} 0.5 0.5", f"{speech} 0 1", f"{speech} 0 1", "x", "")
    write(folder / "segments.en", "One <s>.", "Two.", "Three &amp; <i>four</i>.", "Five.", "Six.", "")
    write(folder / "segments.de", "Eins.", "Zwei.", "Drei &amp; <i>vier</i>.", "F\xfcnf.", "Sechs.", "")
    selection = Selection(task="st", pairs=("en-de",), on_bad="drop")
    train = europarl_st.prepare(tree, selection)["train"]
    assert (train.text, train.src_text) == (
        {f"en-de-{speech}_0000000_0001000": "Drei & vier."},
        {f"en-de-{speech}_0000000_0001000": "three four"},
    )
    reasons = {
        "1": "reserved symbol <s>",
        "2": "not after its start",
        "4": "occurs twice",
        "5": "segment 'x' is invalid",
    }
    assert {*train.dropped} == {f"en-de-train-line{line}" for line in reasons} == train.bad
    assert all(what in train.dropped[f"en-de-train-line{line}"] for line, what in reasons.items())


def test_missing_audio(tree):
    speech = SPEECHES["dev"]
    (tree / "en" / "audios" / f"{speech}.wav").unlink()
    with pytest.raises(DataError) as caught:
        europarl_st.prepare(tree, Selection(task="st", pairs=("en-fr",)))
    what = f"segments.lst:1: the audio {speech} is not in {tree}/en/audios; get it"
    assert f"2 faults: {tree}/en/fr/dev/{what}; " in str(caught.value)
    dev = europarl_st.prepare(tree, Selection(on_bad="drop"))["dev"]
    assert what in dev.dropped.values() and dev.bad == {*dev.dropped}
    assert not dev.text


@pytest.mark.usefixtures("ffmpeg")
def test_m4a_of_the_release_is_read(tree, tmp_path, write_wav):
    audio = tree / "en" / "audios" / SPEECHES["train"]
    run_ffmpeg("-i", f"{audio}.wav", f"{audio}.m4a")
    Path(f"{audio}.wav").unlink()
    sets = europarl_st.prepare(tree)
    assert sets["train"].wav_scp == {SPEECHES["train"]: f"{audio}.m4a"}
    summary = format_data(sets, tmp_path / "data", nj=1)["train"]
    assert dict(summary.converted) == {"MPEG-4 (m4a, mp4, mov)": 2}
    for path, start in zip(read_data_dir(tmp_path / "data" / "train").wav_scp.values(), (0.0, 0.5), strict=True):
        samples, rate = soundfile.read(path, dtype="float32")
        assert rate == 16_000 and len(samples) == 8000
        found, expected = samples[1000:7000], tone(1.0)[round(start * rate) :][1000:7000]
        assert np.corrcoef(found, expected)[0, 1] > 0.99
        assert level(found) == pytest.approx(level(expected), rel=0.05)
    write_wav(Path(f"{audio}.flac"), 1.0)
    assert europarl_st.prepare(tree)["train"].wav_scp == {SPEECHES["train"]: f"{audio}.flac"}


def test_without_text_an_utterance_is_dropped(tree):
    write(tree / "en" / "de" / "train" / "segments.en", "...", TEXTS["en"][1])
    write(tree / "en" / "fr" / "train" / "segments.fr", TEXTS["fr"][0], "")
    assert sorted(europarl_st.prepare(tree, ST)["train"].dropped.values()) == [
        "empty translation",
        "no words in transcript '...'",
    ]


def test_direction_without_training_data(tree):
    for file in (tree / "en" / "fr" / "train").iterdir():
        file.unlink()
    (tree / "en" / "fr" / "train").rmdir()
    with pytest.raises(DataError, match=f"^{tree}: en-fr should be trained but has no training data; remove it, or"):
        europarl_st.prepare(tree, ST)
    sets = europarl_st.prepare(tree, Selection(task="st", pairs=("en-de",), zero_shot=("en-fr",)))
    assert len(sets["test"].text) == 4


def test_unknown_directions_and_places(tree, tmp_path):
    with pytest.raises(ConfigError, match=f"^{tree}: there is no direction 'de-en'; there are: en-de en-fr$"):
        europarl_st.prepare(tree, Selection(task="st", pairs=("de-en",)))
    with pytest.raises(ConfigError, match=f"^{tree}: there is no language 'de'; there are: en$"):
        europarl_st.prepare(tree, Selection(languages=("de",)))
    with pytest.raises(DataError, match="^no Europarl-ST in .*/elsewhere: there is no folder such as en/de; unpack v1"):
        europarl_st.prepare(tmp_path / "elsewhere")


def test_download_unpacks(tmp_path, tree, serve):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(tree, "v1.1")
    server = serve(packed.getvalue())
    for _ in range(2):
        corpus_dir = europarl_st.download(tmp_path / "downloads", url=server.url)
        assert len(europarl_st.prepare(corpus_dir, ST)["train"].text) == 4
    assert len(server.ranges) == 1


def test_speeches_without_a_list_of_speakers_are_their_own(tree):
    (tree / "en" / "de" / "train" / "speakers.lst").unlink()
    train = europarl_st.prepare(tree.parent, Selection(task="st", pairs=("en-de",)))["train"]
    assert set(train.utt2spk.values()) == {SPEECHES["train"]}
