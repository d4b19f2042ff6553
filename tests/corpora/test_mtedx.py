import io
import logging
import shutil
import tarfile

import pytest

from espnet_diverse.audio.segments import Segment
from espnet_diverse.bin.main import main
from espnet_diverse.corpora import Selection, mtedx
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.writing.formatting import format_data
from espnet_diverse.errors import ConfigError, DataError

ST = Selection("st", pairs=("es-en",))


def txt(tree, pair="es-en", split="train"):
    return tree / pair / "data" / split / "txt"


def refused(tree, selection=ST):
    """The one-line error of preparing the tree."""
    with pytest.raises(DataError) as caught:
        mtedx.prepare(tree, selection)
    return str(caught.value)


def test_recognition_reads_the_folders_of_the_languages(mtedx_tree):
    sets = mtedx.prepare(mtedx_tree, Selection(languages=("es", "de")))
    assert list(sets) == ["train", "dev", "test"]
    dev = {
        f"{language}-validtalk": f"{mtedx_tree}/{language}-{language}/data/valid/wav/validtalk.flac"
        for language in ("es", "de")
    }
    assert sets["dev"] == DataDir(
        wav_scp=dev,
        text={
            "es-validtalk_0000": "hola a todos",
            "es-validtalk_0001": "gracias",
            "de-validtalk_0000": "ja",
            "de-validtalk_0001": "nein",
        },
        utt2spk={f"{talk}_{number}": talk for talk in dev for number in ("0000", "0001")},
        segments={
            f"{talk}_{number}": Segment(talk, *times)
            for talk in dev
            for number, times in (("0000", (0.0, 0.75)), ("0001", (1.0, 1.5)))
        },
        conditions={"utt2lang": {f"{talk}_{number}": talk[:2] for talk in dev for number in ("0000", "0001")}},
    )


def test_translation_keeps_case_and_punctuation_of_the_target(mtedx_tree):
    train = mtedx.prepare(mtedx_tree, ST)["train"]
    assert train.text == {"es-en-traintalk_0000": "Hello everyone!", "es-en-traintalk_0001": "Thank you."}
    assert train.src_text == {"es-en-traintalk_0000": "hola a todos", "es-en-traintalk_0001": "gracias"}
    assert train.conditions == {
        "utt2lang": dict.fromkeys(train.text, "es"),
        "utt2tgtlang": dict.fromkeys(train.text, "en"),
    }
    written = mtedx.prepare(mtedx_tree, Selection("st", pairs=("es-en",), transcripts="written"))["train"]
    assert written.src_text["es-en-traintalk_0000"] == "¡Hola a todos! (Risas)"


def test_zero_shot_directions_are_tested_only(mtedx_tree):
    """And the language spoken is heard in training."""
    shutil.copytree(mtedx_tree / "es-es", mtedx_tree / "pt-pt")
    for text in (mtedx_tree / "pt-pt").rglob("*.es"):
        text.rename(text.with_suffix(".pt"))
    sets = mtedx.prepare(mtedx_tree, Selection("st", pairs=("es-en",), zero_shot=("pt-en",)))
    directions = {
        name: set(zip(data.conditions["utt2lang"].values(), data.conditions["utt2tgtlang"].values(), strict=True))
        for name, data in sets.items()
    }
    assert directions == {
        "train": {("es", "en"), ("pt", "pt")},
        "dev": {("es", "en")},
        "test": {("es", "en"), ("pt", "en")},
    }
    assert sets["train"].text["pt-traintalk_0000"] == "¡Hola a todos! (Risas)"
    assert sets["train"].src_text["pt-traintalk_0000"] == "hola a todos"


def test_transcripts_of_a_translated_direction_can_be_recognised(mtedx_tree):
    sets = mtedx.prepare(mtedx_tree, Selection(pairs=("es-en", "de-de")))
    assert sets["test"].text["es-en-testtalk_0001"] == "gracias"
    assert sets["test"].text["de-testtalk_0001"] == "nein"
    assert sets["test"].conditions["utt2lang"]["es-en-testtalk_0001"] == "es"
    assert "utt2tgtlang" not in sets["test"].conditions


def test_yaml_gives_the_same_as_segments(mtedx_tree):
    expected = mtedx.prepare(mtedx_tree, ST)
    (txt(mtedx_tree) / "segments").unlink()
    entries = "- {duration: 0.75, offset: 0.0, speaker_id: spk.1, wav: traintalk.wav}\n"
    entries += "- {wav: traintalk.wav, offset: 1.0, duration: 0.5}\n"
    (txt(mtedx_tree) / "train.yaml").write_text(entries)
    assert mtedx.prepare(mtedx_tree, ST) == expected


def test_the_thirteen_directions_of_the_paper():
    folders = mtedx.directions(Selection("st"))
    assert {name: len(pairs) for name, pairs in folders.items()} == {"train": 11, "dev": 10, "test": 13}
    assert set(folders["train"]) - set(folders["dev"]) == {"it-it"}
    assert set(folders["test"]) - set(folders["dev"]) == {"it-en", "it-es", "pt-es"}
    chosen = mtedx.directions(Selection("st", zero_shot=("es-it",)))
    assert chosen["train"] == chosen["dev"] == tuple(pair for pair in mtedx.TRAINED if pair != "es-it")
    french = mtedx.directions(Selection("st", languages=("fr", "it")))
    assert french["test"] == ("fr-en", "fr-es", "fr-pt", "it-en", "it-es")
    asr = tuple(f"{language}-{language}" for language in ("ar", "de", "el", "es", "fr", "it", "pt", "ru"))
    assert mtedx.directions(Selection()) == {"train": asr, "dev": asr, "test": asr}


@pytest.mark.parametrize(
    ("selection", "what"),
    [
        (Selection(zero_shot=("es-en",)), "zero_shot directions are for task st; speech recognition has none"),
        (Selection(languages=("es",), pairs=("es-en",)), "languages and pairs are both given; give one of them"),
        (
            Selection("st", languages=("de", "ar")),
            "languages de ar: mTEDx translates none of them; it has training data",
        ),
    ],
)
def test_options_that_do_not_go_together(mtedx_tree, selection, what):
    with pytest.raises(ConfigError, match=f"^{what}"):
        mtedx.prepare(mtedx_tree, selection)


def test_missing_folders_are_listed_with_the_existing_ones(mtedx_tree, tmp_path):
    assert refused(mtedx_tree, Selection(languages=("es", "el", "ru"))) == (
        f"no mTEDx data for el-el ru-ru in {mtedx_tree}: there are de-de es-en es-es pt-en; unpack its archive there, "
        "or select others with --languages or --pairs"
    )
    assert "there is no folder such as es-es/data" in refused(tmp_path / "nowhere")


def test_a_trained_direction_needs_training_data(mtedx_tree):
    assert refused(mtedx_tree, Selection("st", pairs=("es-en", "pt-en"))) == (
        f"pt-en has no training data: there is no {mtedx_tree}/pt-en/data/train; test it only with --zero_shot pt-en, "
        "or leave it out"
    )


@pytest.mark.parametrize("name", ["train.es", "train.en"])
def test_parallel_files_of_different_length(mtedx_tree, name):
    with (txt(mtedx_tree) / name).open("a") as file:
        file.write("more\n")
    what = "has 3 lines, and segments has 2; parallel files are equally long: get both again"
    assert refused(mtedx_tree) == f"{txt(mtedx_tree)}/{name}: {what}"


@pytest.mark.parametrize(("name", "content"), [("segments", ""), ("train.yaml", "[]\n")])
def test_texts_without_segments(mtedx_tree, name, content):
    (txt(mtedx_tree) / "segments").unlink()
    (txt(mtedx_tree) / name).write_text(content)
    assert f"{txt(mtedx_tree)}/train.es: has 2 lines, and {name} has 0; parallel files" in refused(mtedx_tree)


def test_segment_past_the_end_of_its_audio(mtedx_tree, tmp_path):
    """Also where it is longer than what is kept."""
    for end in ("2.75", "90.5"):
        (txt(mtedx_tree) / "segments").write_text(f"a traintalk 0.0 0.75\nb traintalk 1.0 {end}\n")
        with pytest.raises(DataError) as caught:
            format_data(mtedx.prepare(mtedx_tree, ST), tmp_path / "data", nj=1)
        audio = mtedx_tree / "es-en/data/train/wav/traintalk.flac"
        what = f"segment from 1.0 to {end} s lies past the end of the audio at 2.000 s"
        assert str(caught.value) == f"train: es-en-b: {audio}: {what}"
        assert not (tmp_path / "data").exists()


def test_segment_without_audio(mtedx_tree):
    (mtedx_tree / "es-en/data/train/wav/traintalk.flac").rename(mtedx_tree / "es-en/data/train/wav/other.flac")
    what = f"its audio traintalk is not in {mtedx_tree}/es-en/data/train/wav; get it"
    assert refused(mtedx_tree).startswith(f"2 faults: {txt(mtedx_tree)}/segments:1: {what}; ")
    sets = mtedx.prepare(mtedx_tree, Selection("st", pairs=("es-en",), on_bad="drop"))
    dropped = {f"es-en-traintalk_000{line - 1}": f"segments:{line}: {what}" for line in (1, 2)}
    assert sets["train"] == DataDir(dropped=dropped, bad={*dropped})


def test_faults_of_lines_and_recordings_leave_out_their_utterances_alone(mtedx_tree, tmp_path, capsys):
    """As in subtitles of volunteers: what is listed and what is kept add up to the lines of the release."""
    (txt(mtedx_tree) / "segments").write_text(
        "a traintalk 0.0 0.5\nb\ttraintalk 0.5 0.5\nc traintalk 1 9\nd lost 0 1\n"
        "e traintalk 0.5 1.0\nf traintalk 1 1.5\na traintalk 1.5 2.0\n\nh traintalk 0.0 1.0\n"
    )
    lines = "uno|dos|tres|cuatro|cin\x92co|seis <unk>|siete|ocho|nueve".replace("|", "\r\n")
    (txt(mtedx_tree) / "train.es").write_text(lines, encoding="utf-8")
    source = [
        "prepare",
        "mtedx",
        str(mtedx_tree),
        "--languages",
        "es",
        "--sets",
        "train",
        "--output_dir",
        str(tmp_path),
    ]
    for name in ("segments", "train.es"):
        shutil.copy(txt(mtedx_tree) / name, txt(mtedx_tree, "es-es") / name)
    assert main(source) == 1
    assert "; --on_bad drop leaves out utterances with faults" in capsys.readouterr().err
    assert main([*source, "--on_bad", "drop"]) == 0
    listed = tmp_path / "train" / "dropped.tsv"
    assert f"train: 2 utterances, 0.00 hours, 1 speakers, 7 dropped (listed in {listed}): 77.78%, 7 with faults" in (
        capsys.readouterr().out
    )
    assert (tmp_path / "train" / "text").read_text() == "es-a uno\nes-h nueve\n"
    rows = dict(line.split("\t") for line in listed.read_text().splitlines()[1:])
    assert list(rows) == ["es-b", "es-c", "es-d", "es-e", "es-f", "es-train-line7", "es-train-line8"]
    assert rows["es-b"].startswith("segments:2: segment ends at 0.5 s, not after its start")
    assert "lies past the end of the audio" in rows["es-c"] and "its audio lost is not in" in rows["es-d"]
    assert "train.es:5: transcript contains the control character U+0092" in rows["es-e"]
    assert "train.es:6: transcript contains the reserved symbol <unk>" in rows["es-f"]
    assert "segments:7: duplicate id 'a', first in 1" in rows["es-train-line7"]


def test_a_wrong_entry_of_the_yaml_keeps_the_others_beside_their_texts(mtedx_tree):
    (txt(mtedx_tree) / "segments").unlink()
    entry = "- {wav: traintalk.wav, offset: 0.5, duration: 0.5}\n"
    (txt(mtedx_tree) / "train.yaml").write_text(f"- {{wav: traintalk.wav}}\n{entry}")
    train = mtedx.prepare(mtedx_tree, Selection("st", pairs=("es-en",), on_bad="drop"))["train"]
    assert train.text == {"es-en-traintalk_0000": "Thank you."} and list(train.dropped) == ["es-en-train-line1"]


def test_tags_and_entities_of_subtitles_are_no_words(mtedx_tree):
    (txt(mtedx_tree) / "train.es").write_text("<i>Hola</i> &amp; <font color='red'>adi&oacute;s\nTú &lt; yo<br/>sí\n")
    (txt(mtedx_tree) / "train.en").write_text("<i>Hi</i> &amp; bye\nYou &lt; me\n")
    train = mtedx.prepare(mtedx_tree, ST)["train"]
    assert list(train.src_text.values()) == ["hola adiós", "tú yo sí"]
    assert list(train.text.values()) == ["Hi & bye", "You < me"]


def test_blank_lines_at_the_end_are_passed_over_with_a_notice(mtedx_tree, caplog):
    expected = mtedx.prepare(mtedx_tree, ST)["train"]
    for name, blank in (("segments", "\n"), ("train.es", "\n"), ("train.en", "\n \n")):
        with (txt(mtedx_tree) / name).open("a") as file:
            file.write(blank)
    with caplog.at_level(logging.WARNING):
        assert mtedx.prepare(mtedx_tree, ST)["train"] == expected
    assert "train.en: repaired while reading: blank line at the end (2)" in caplog.text


def test_utterances_without_words_are_dropped(mtedx_tree):
    (txt(mtedx_tree) / "train.es").write_text("(Aplausos) ♪\nGracias.\n", encoding="utf-8")
    (txt(mtedx_tree) / "train.en").write_text("(Applause)\n\n")
    assert mtedx.prepare(mtedx_tree, ST)["train"].dropped == {
        "es-en-traintalk_0000": "no words in transcript '(Aplausos) ♪'",
        "es-en-traintalk_0001": "empty translation",
    }


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("a traintalk 0.0 0.75\na traintalk 1 2\n", "segments:2: duplicate id 'a', first in 1"),
        ("a traintalk 0.0 0.75\nb traintalk 2 1\n", "segments:2: segment ends at 1.0 s, not after its start at 2.0 s"),
        (
            "a traintalk 0.0 0.75\nb traintalk\n",
            "segments:2: segment 'traintalk' is invalid; the format is: utterance recording",
        ),
    ],
)
def test_faulty_segments(mtedx_tree, rows, what):
    (txt(mtedx_tree) / "segments").write_text(rows)
    assert f"{txt(mtedx_tree)}/{what}" in refused(mtedx_tree)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "train.yaml: no such file, and no file segments in its folder; get the corpus again"),
        (
            "- {a: 1\n",
            "train.yaml: its content is not valid YAML (did not find expected ',' or '}' in line 2)",
        ),
        ("- {wav: 2020-99-99}\n", "train.yaml: its content is not valid YAML (month must be in 1..12)"),
        ("- {wav: !!timestamp x}\n", "train.yaml: its content is not valid YAML (a value does not fit its tag)"),
        (
            f"- {{wav: a.wav, offset: 1{'0' * 400}, duration: 1}}\n",
            "train.yaml: its content is not valid YAML (a number of 401 digits; 100 are allowed)",
        ),
        (
            "- {wav: a.wav, offset: 1}\n",
            "train.yaml:1: entry {'wav': 'a.wav', 'offset': 1} is wrong; an entry is {wav: ",
        ),
        ("words\n", "train.yaml:1: entry 'words' is wrong; an entry is {wav: talk.wav, offset: 1.5, duration: 2.0}"),
    ],
)
def test_faulty_yaml(mtedx_tree, content, what):
    (txt(mtedx_tree) / "segments").unlink()
    if content:
        (txt(mtedx_tree) / "train.yaml").write_text(content)
    assert f"{txt(mtedx_tree)}/{what}" in refused(mtedx_tree)


def test_repairs_are_noticed(mtedx_tree, caplog):
    (txt(mtedx_tree) / "train.en").write_bytes(b"Hello\xc2\xa0everyone!\r\nThank you.\r\n")
    with caplog.at_level(logging.WARNING):
        assert mtedx.prepare(mtedx_tree, ST)["train"].text["es-en-traintalk_0000"] == "Hello everyone!"
    assert "train.en: repaired while reading: CRLF line end (2), unusual space (1)" in caplog.text


def test_download_unpacks_one_archive_a_folder(mtedx_tree, tmp_path, serve, monkeypatch):
    """mtedx_es.tgz holds es-es; existing folders are not fetched again."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(mtedx_tree / "es-es", "es-es")
    server = serve(packed.getvalue())
    selection = Selection(languages=("es",))
    own = tmp_path / "downloads" / "mtedx_es-es" / "own"
    own.parent.mkdir(parents=True)
    own.write_text("precious")
    for _ in range(2):
        corpus_dir = mtedx.download(tmp_path / "downloads", selection, server.url)
        assert mtedx.prepare(corpus_dir, selection)["test"].text == mtedx.prepare(mtedx_tree, selection)["test"].text
    assert len(server.ranges) == 1
    assert sorted(path.name for path in (tmp_path / "downloads").iterdir()) == ["mtedx", "mtedx_es-es", "mtedx_es.tgz"]
    assert [path.name for path in own.parent.iterdir()] == ["own"] and own.read_text() == "precious"
    assert [path.name for path in corpus_dir.iterdir()] == ["es-es"]
    assert [path.name for path in (corpus_dir / "es-es").iterdir()] == ["data"]
    with pytest.raises(DataError, match="mtedx_es-en.tgz: holds no folder es-en; delete it and fetch it again"):
        mtedx.download(tmp_path / "downloads", ST, server.url)
