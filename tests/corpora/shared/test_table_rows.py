"""The rows of a table: ids, times, texts and conditions; every fault by line, column and value."""

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.table_files import Row, Table
from espnet_diverse.corpora.shared.table_rows import RowReader
from espnet_diverse.data.characters import safe_name


@pytest.fixture
def read(tmp_path):
    """read([row, ...], **selection) -> (entries, faults); one.wav, "day 1/two.wav" and ../far.flac exist."""
    (tmp_path / "set" / "day 1").mkdir(parents=True)
    for name in ("one.wav", "day 1/two.wav", "day-1_two.wav", "../far.flac", "one.mp3"):
        (tmp_path / "set" / name).touch()

    def run(rows, **options):
        table = Table(tmp_path / "set" / "t.csv", rows=[Row(2 + number, row) for number, row in enumerate(rows)])
        columns = {name: name for row in rows for name in row}
        reader = RowReader(table, columns, Selection(**options))
        entries = reader.read()
        start = f"{table.path}:"
        return entries, [str(fault).removeprefix(start) for fault in reader.faults]

    return run


def test_ids_are_made_of_path_times_and_target_language(read, tmp_path):
    rows = [
        {"audio": "one.wav", "text": "x"},
        {"audio": "day 1/two.wav", "text": "x", "start": "1.5", "end": "2"},
        {"audio": "day 1/two.wav", "text": "x", "start": 2},
        {"audio": f"{tmp_path}/far.flac", "text": "x"},
        {"audio": "./day 1/../one.wav", "text": "x", "id": "mine"},
    ]
    entries, faults = read(rows)
    assert faults == []
    assert [entry.utterance for entry in entries] == [
        *("one", "day_1-two-0001500-0002000", "day_1-two-0002000-end", "far", "mine"),
    ]
    assert [entry.recording for entry in entries] == ["one", "day_1-two", "day_1-two", "far", "one"]
    assert entries[1].audio == tmp_path / "set" / "day 1" / "two.wav"
    assert [(entry.start, entry.end) for entry in entries[1:3]] == [(1.5, 2.0), (2.0, None)]
    row = {"audio": "one.wav", "text": "Ja", "translation": "Yes.", "target_language": "en"}
    (entry,), _ = read([row], task="st")
    assert (entry.utterance, entry.translation, entry.conditions) == ("one-en", "Yes.", {"utt2tgtlang": "en"})
    (entry,), _ = read([row])
    assert (entry.utterance, entry.translation, entry.conditions) == ("one", "", {})


def test_names_may_be_composed_in_the_table_and_not_on_the_disk_and_the_reverse(read, tmp_path):
    for name in ("Gru\u0308n.wav", "Rosé.wav"):
        (tmp_path / "set" / name).touch()
    given = ("Grün.wav", "Rose\u0301.wav", "Weiß.wav")
    entries, faults = read([{"audio": name, "text": "x"} for name in given], on_bad="drop")
    assert faults == []
    assert [(entry.audio.name, entry.recording) for entry in entries] == [
        *(("Gru\u0308n.wav", "Grün"), ("Rosé.wav", "Rosé"), ("Weiß.wav", "Weiß")),
    ]
    assert [entry.dropped for entry in entries] == ["", "", f"audio {tmp_path}/set/Weiß.wav does not exist"]


def test_paths_of_windows_are_read_and_a_file_with_another_name_is_named(read, tmp_path):
    given = (r"day 1\two.wav", "ONE.wav", r"D:\set\day 1\two.wav", "two")
    entries, faults = read([{"audio": name, "text": "x", "id": f"u{n}"} for n, name in enumerate(given)])
    assert entries[0].audio == tmp_path / "set" / "day 1" / "two.wav" and entries[0].recording == "day_1-two"
    assert [fault.partition(" does not exist, but ")[2].partition(" is there")[0] for fault in faults] == [
        *("one.wav", "day 1/two.wav", ""),
    ]


def test_a_duration_gives_the_end(read):
    rows = [
        {"audio": "one.wav", "text": "x", "start": 0.1, "duration": 0.2},
        {"audio": "one.wav", "text": "x", "start": None, "duration": 1.5},
        {"audio": "one.wav", "text": "x", "start": 2, "duration": None},
    ]
    entries, faults = read(rows)
    assert faults == [] and [(one.start, one.end) for one in entries] == [(0.1, 0.3), (None, 1.5), (2.0, None)]
    _, faults = read([{"audio": "one.wav", "text": "x", "start": 1, "duration": 0}])
    assert faults == ["2: duration 0: must be more than 0 seconds"]


def test_texts_and_speakers(read):
    row = {"audio": "one.wav", "text": " IŞIK,  dedi. ", "speaker": "Anna  Meier", "language": "tr", "domain": "home"}
    (entry,), _ = read([row])
    assert (entry.transcript, entry.speaker) == ("ışık dedi", "Anna_Meier")
    assert entry.conditions == {"utt2lang": "tr", "utt2domain": "home"}
    (entry,), _ = read([row], transcripts="written")
    assert entry.transcript == "IŞIK, dedi."
    (entry,), faults = read([{"audio": "one.wav", "text": "..."}])
    assert (entry.dropped, faults) == ("no words in transcript '...'", [])


def test_speakers_with_one_name_in_the_data_are_told(read, caplog):
    rows = [{"audio": "one.wav", "text": "a", "speaker": name, "id": name[-1]} for name in ("C+", "C#", "C#")]
    entries, _ = read([row | {"id": f"u{n}"} for n, row in enumerate(rows)])
    assert {entry.speaker for entry in entries} == {safe_name("C#")}
    assert len([record for record in caplog.records if "speakers 'C+' and 'C#' are both" in record.getMessage()]) == 1


FAULTY = {
    "no audio file": ({"audio": "no.wav"}, "audio 'no.wav': {set}/no.wav does not exist; add it"),
    "no path": ({"audio": " "}, "audio ' ': is empty; add it"),
    "no text": ({"text": None}, "text None: is empty; add it"),
    "reserved": ({"text": "a <unk> b"}, "text 'a <unk> b': transcript contains the reserved symbol <unk>; remove it"),
    "list": ({"text": ["a"]}, "text ['a']: must be a string or a number"),
    "truth": ({"text": True}, "text True: must be a string or a number"),
    "surrogate": ({"text": "a\ud800"}, "text 'a\\ud800': has half of a surrogate pair; write the character itself"),
    "words for a number": ({"start": "1,5"}, "start '1,5': must be seconds, from 0, with a point as in 2.5"),
    "negative": ({"start": -1}, "start -1: must be seconds, from 0, with a point as in 2.5"),
    "not a number": ({"end": "nan"}, "end 'nan': must be seconds, from 0, with a point as in 2.5"),
    "backwards": ({"start": "3", "end": "2.5"}, "end '2.5': must be after the start at 3 s"),
    "nothing": ({"end": "0"}, "end '0': must be after the start at 0 s"),
    "language": ({"language": "de DE"}, "language 'de DE': id 'de DE' contains ' '; allowed are letters"),
    "long audio": ({"id": "a", "audio": "a" * 300}, "does not exist; add it"),
    "no language": ({"language": ""}, "language '': is empty; write it in every row, or in none"),
    "id": ({"id": "a/b"}, "id 'a/b': id 'a/b' contains '/'; allowed are letters"),
    "long": ({"id": "a" * 241}, "is 241 bytes long; allowed are 240"),
    "set": (
        {"split": "cv"},
        "split 'cv': is no set; known are train, dev, valid, validation, val, test: name it with --set_names "
        "train=NAME, or leave it out with --sets train dev test",
    ),
}


@pytest.mark.parametrize("kind", FAULTY)
def test_a_fault_names_line_column_and_value(read, tmp_path, kind):
    change, what = FAULTY[kind]
    entries, faults = read([{"audio": "one.wav", "text": "x"} | change])
    assert entries == [] and len(faults) == 1
    assert faults[0].startswith("2: ") and what.format(set=tmp_path / "set") in faults[0]


def test_all_faults_are_found_in_one_pass(read):
    _, faults = read([{"audio": "no.wav", "text": "", "start": "x"}, {"audio": "one.wav", "text": "x"}, {"audio": 1}])
    assert [fault.split(" ")[:2] for fault in faults] == [
        *(["2:", "start"], ["2:", "audio"], ["2:", "text"]),
        *(["4:", "audio"], ["4:", "text"]),
    ]


def test_rows_that_lack_something_are_dropped_on_request(read, tmp_path):
    rows = [{"audio": "no.wav", "text": ""}, {"audio": "", "text": "x"}, {"audio": "one.wav", "text": "x"}]
    entries, faults = read(rows, on_bad="drop")
    assert faults == []
    assert {entry.utterance: entry.dropped for entry in entries} == {
        "no": f"audio {tmp_path}/set/no.wav does not exist; text is empty",
        "row3": "audio is empty",
        "one": "",
    }


def test_an_id_is_used_once(read):
    rows = [{"audio": "one.wav", "text": "x"}, {"audio": "one.wav", "text": "y"}]
    assert read(rows)[1] == ["3: utterance one is also in line 2; remove one, or add a column id"]
    rows[1] = {"audio": "one.mp3", "text": "y", "start": 1}
    entries, (fault,) = read(rows)
    assert [entry.audio.name for entry in entries] == ["one.wav"]
    assert fault.startswith("3: audio 'one.mp3': would have the id one of ")
    assert fault.endswith("one.wav as well; rename a file")


def test_cells_but_paths_are_cleaned_as_reading_does_it(read, tmp_path):
    (tmp_path / "set" / "Rose\u0301\u200b.wav").touch()
    row = {"audio": "Rose\u0301\u200b.wav", "text": "Rose\u0301", "id": "\ufeffcafe\u0301-1", "speaker": "s\xad1"}
    (entry,), faults = read([row | {"domain": "the\u0301\u200b", "language": "e\u200bn"}])
    assert faults == [] and entry.audio.name == "Rose\u0301\u200b.wav"
    assert (entry.utterance, entry.speaker, entry.transcript) == ("café-1", "s1", "rosé")
    assert entry.conditions == {"utt2domain": "thé", "utt2lang": "en"}


def test_rows_of_sets_that_are_not_wanted_are_not_looked_at(read):
    rows = [{"audio": "no.wav", "text": "", "split": split} for split in ("train", "other")]
    rows.append({"audio": "one.wav", "text": "x", "split": "Test"})
    entries, faults = read(rows, sets=("test",))
    assert faults == [] and [(entry.utterance, entry.set) for entry in entries] == [("one", "test")]
    entries, _ = read([rows[2] | {"split": "tt"}], set_names=(("test", "tt"),))
    assert entries[0].set == "test"
