import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_diverse.errors import DataError
from espnet_diverse.transcription.inputs import files_of, find_recordings, printable


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def touch(*names):
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()


def paths(found):
    return [one.path for one in found]


def names(found):
    return [one.name for one in found]


def test_files_are_taken_as_they_are_named(here):
    found = find_recordings(["b.wav", "a.strange", "-", "no/such.flac"])
    assert paths(found) == ["b.wav", "a.strange", "-", "no/such.flac"]
    assert names(found) == ["b", "a", "stdin", "such"]


def test_folders_give_their_audio_by_name(here):
    touch(
        "d/z.WAV",
        "d/sub/deep/a.mp3",
        "d/b.opus",
        "d/notes.txt",
        "d/._b.opus",
        "d/.hidden.wav",
        "d/.hidden/e.wav",
        "d/c.m4a",
    )
    Path("d/dangling.wav").symlink_to("nowhere.wav")
    Path("d/sub/loop").symlink_to(here / "d")
    found = find_recordings(["d"])
    assert paths(found) == ["d/b.opus", "d/c.m4a", "d/dangling.wav", "d/sub/deep/a.mp3", "d/z.WAV"]


def test_folders_give_all_formats_that_are_read(here):
    names = "3ga 3gpp ac3 avi flv m4b m4v mp2 mpga mpg oga weba wv WMA"
    known = [f"d/x.{name}" for name in names.split()]
    touch(*known)
    Path("d/talk.ts").write_bytes((b"G" + bytes(187)) * 4)
    Path("d/code.ts").write_text("Great()")
    assert sorted(paths(find_recordings(["d"]))) == sorted([*known, "d/talk.ts"])


def test_a_notice_counts_the_recordings_that_a_folder_keeps_back(here, caplog):
    touch("d/a.wav", "d/notes.txt", "d/old.shn", "d/empty")
    soundfile.write("d/sub.dat", np.zeros(99), 8000, format="FLAC")
    Path("d/page.html").write_text("<html>")
    Path("d/utf16.txt").write_text("a", "utf-16")
    assert paths(find_recordings(["d"])) == ["d/a.wav"]
    assert "d: 2 files that may be recordings are passed over for their suffix: old.shn, sub.dat;" in caplog.text
    assert len(caplog.records) == 1


def test_a_folder_without_audio_stands_for_itself(here):
    touch("d/notes.txt")
    assert paths(find_recordings(["a.wav", "d"])) == ["a.wav", "d"]


def test_nothing_named(here):
    with pytest.raises(DataError, match="no recording is named; give files, folders, - for standard input, or --list"):
        find_recordings([])


def test_an_empty_source_is_not_the_current_folder(here):
    touch("a.wav")
    with pytest.raises(DataError, match="a source is empty; give a file, a folder or -"):
        find_recordings(["a.wav", ""])


def test_no_two_outputs_share_a_name(here):
    sources = ["x/a.wav", "x/a.mp3", "y/a.wav", "b.wav", "y/A.WAV", "a.wav.flac", "failures.wav", "c/stdin.wav", "-"]
    found = find_recordings(sources)
    assert paths(found) == sources
    expected = ["x-a.wav", "a.mp3", "y-a.wav", "b", "y-A.WAV-2", "a.wav", "failures.wav", "stdin.wav", "stdin"]
    assert names(found) == expected
    assert len({name.casefold() for name in names(found)}) == len(found)


def test_names_show_the_folders_that_differ(here):
    touch("in/anna/day 1/001.wav", "in/ben/day 1/001.wav", "in/ben/day 1/002.wav", "in/001.wav")
    assert names(find_recordings(["in"])) == ["001.wav", "anna-day 1-001.wav", "ben-day 1-001.wav", "002"]
    assert names(find_recordings(["in/ben", "in/001.wav"])) == ["ben-day 1-001.wav", "002", "001.wav"]


def test_repeated_inputs_are_taken_once(here):
    touch("d/a.wav", "d/b.wav")
    assert paths(find_recordings(["d/b.wav", "d", "./d/a.wav", "-", "-"])) == ["d/b.wav", "d/a.wav", "-"]


def test_names_can_be_written(here):
    (long, odd, broken) = find_recordings(["ü" * 300 + ".wav", "a\nb.wav", os.fsdecode(b"\xff.wav")])
    (plain,) = find_recordings(["a" * 300 + ".wav"])
    assert plain.name == "a" * 200 and long.name == "ü" * 100 and odd.name == "a\ufffdb" and broken.name == "\ufffd"
    assert printable("tab\tand \udcff") == "tab\ufffdand \ufffd"


def test_channels_that_cancel_are_found_in_files_alone(here):
    wave = np.sin(np.arange(8000) / 10)
    soundfile.write("against.wav", np.stack([wave, -wave], 1), 8000)
    soundfile.write("along.wav", np.stack([wave, wave], 1), 8000)
    soundfile.write("-", np.stack([wave, -wave], 1), 8000, format="wav")  # a file of this name, not standard input
    found = find_recordings(["against.wav", "along.wav", "-", "gone.wav"])
    assert [one.channels_cancel() for one in found] == [True, False, False, False]


def test_each_channel_may_be_a_recording(here):
    soundfile.write("call.wav", np.zeros((800, 2)), 8000)
    soundfile.write("one.wav", np.zeros(800), 8000)
    soundfile.write("call.flac", np.zeros((800, 2)), 8000)
    found = find_recordings(["call.wav", "one.wav", "gone.wav"], each_channel=True)
    assert [one.channel for one in found] == [0, 1, None, None]
    assert names(found) == ["call-channel0", "call-channel1", "one", "gone"]
    assert [one.shown for one in found[1:3]] == ["call.wav channel 1", "one.wav"]
    both = names(find_recordings(["call.wav", "call.flac"], each_channel=True))
    assert both == [f"call.{suffix}-channel{n}" for suffix in ("wav", "flac") for n in (0, 1)]
    with pytest.raises(DataError, match="standard input"):
        find_recordings(["-"], each_channel=True)


def test_a_list_names_languages_and_domains(here):
    Path("lists").mkdir()
    Path("lists/all.tsv").write_text("a.wav\tes\ttalks\n\n../b.wav\tde\n/abs/c d.wav\r\n")
    found = find_recordings([], Path("lists/all.tsv"))
    assert paths(found) == ["lists/a.wav", "lists/../b.wav", "/abs/c d.wav"]
    assert [one.conditions for one in found] == [{"lang": "es", "domain": "talks"}, {"lang": "de"}, {}]


def test_a_header_names_the_columns_of_a_list(here):
    Path("all.tsv").write_text("path\tspeaker\ttarget_language\tlanguage\na.wav\tme\ten\tes\na.wav\tme\tde\tes\n")
    found = find_recordings([], Path("all.tsv"))
    assert [one.conditions for one in found] == [{"tgtlang": "en", "lang": "es"}, {"tgtlang": "de", "lang": "es"}]
    assert names(found) == ["a.wav", "a.wav-2"]


def test_columns_of_a_list_have_the_other_names_of_a_table(here, caplog):
    Path("all.tsv").write_text("client_id\tPath\tlang\ttgt_lang\tlangauge\nme\ta.wav\tes\ten\tde\n")
    (one,) = find_recordings([], Path("all.tsv"))
    assert (one.path, one.name, one.conditions) == ("a.wav", "a", {"lang": "es", "tgtlang": "en"})
    assert caplog.messages == ["notice: all.tsv: columns that are not read: client_id, langauge"]


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("id\tlang\n", "names the columns id lang, and none is path; call the one with the files path"),
        ("path\tlang\tlanguage\n", "has the columns lang and language, which mean the same; rename one"),
    ],
)
def test_faults_of_the_first_line(here, header, what):
    Path("all.tsv").write_text(f"{header}a.wav\tes\n")
    with pytest.raises(DataError, match=rf"^all\.tsv:1: {what}$"):
        find_recordings([], Path("all.tsv"))


@pytest.mark.parametrize("header", ["path language", "audio text speaker"])
@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_a_header_with_another_separator_is_named(here, separator, header):
    Path("all.csv").write_text(f"{header.replace(' ', separator)}\na.wav{separator}es\n")
    with pytest.raises(DataError, match=rf"^all\.csv:1: its columns are separated by '{re.escape(separator)}'"):
        find_recordings([], Path("all.csv"))


def test_a_list_may_come_from_a_pipe(here):
    """Its paths are relative to the current folder, for a pipe lies in none."""
    read, write = os.pipe()
    os.write(write, b"a.wav\ten\nd/b.wav\n")
    os.close(write)
    assert paths(find_recordings([], Path(f"/dev/fd/{read}"))) == ["a.wav", "d/b.wav"]
    os.close(read)


def test_a_list_from_standard_input(here):
    command = "from pathlib import Path; from espnet_diverse.transcription.inputs import find_recordings as find;"
    command += "print(*(one.path for one in find([], Path('-'))))"
    done = subprocess.run([sys.executable, "-c", command], input="a.wav\nd/b.wav\n", capture_output=True, text=True)
    assert done.stdout.split() == ["a.wav", "d/b.wav"]


def test_faults_of_a_list_are_named_together(here):
    Path("all.tsv").write_text("a.wav\tes\tx\ty\nb.wav\n\tes\n")
    message = (
        r"2 faults: all\.tsv:1: has 4 columns, and 3 are allowed, separated by tabs: path language domain; "
        r"all\.tsv:3: has no path; a line begins with one"
    )
    with pytest.raises(DataError, match=message):
        find_recordings([], Path("all.tsv"))
    with pytest.raises(DataError, match=r"gone\.tsv: cannot be read \(No such file or directory\)"):
        find_recordings([], Path("gone.tsv"))


def test_a_kaldi_directory_is_a_list(here):
    Path("wav.scp").write_text("u2.x other/b.flac\nu1 a b.wav\n")
    Path("utt2lang").write_text("u1 es\nu2.x de\n")
    Path("utt2domain").write_text("u1 talks\n")
    found = find_recordings([], Path("wav.scp"))
    assert [(one.path, one.name) for one in found] == [("a b.wav", "u1"), ("other/b.flac", "u2.x")]
    assert (
        found[0].conditions["lang"] == "es"
        and found[0].conditions["domain"] == "talks"
        and "domain" not in found[1].conditions
    )


def test_ids_of_a_kaldi_directory_may_share_a_file(here):
    """Two sets of references may score one recording; each id must have its hypothesis."""
    Path("wav.scp").write_text("u1 a.wav\nu2 a.wav\n")
    found = find_recordings(["a.wav"], Path("wav.scp"))
    assert [(one.path, one.name) for one in found] == [("a.wav", "a"), ("a.wav", "u1"), ("a.wav", "u2")]


def test_ids_that_are_alike_have_no_suffix(here):
    Path("wav.scp").write_text("Utt a/x.wav\nfailures c.wav\nutt b/x.wav\n")
    assert [one.name for one in find_recordings([], Path("wav.scp"))] == ["a-Utt", "failures-2", "b-utt"]


def test_commands_and_segments_of_a_kaldi_directory_are_refused(here):
    Path("wav.scp").write_text("u1 sox a.wav |\n")
    with pytest.raises(DataError, match=r"wav\.scp:1: .* contains a pipe; commands are not run"):
        find_recordings([], Path("wav.scp"))
    Path("segments").write_text("u1 r 0 1\n")
    with pytest.raises(
        DataError, match=r"has segments; cut them with espnet-diverse prepare kaldi, or give the directory"
    ):
        find_recordings([], Path("wav.scp"))


def test_recordings_that_are_files(here):
    touch("a.wav")
    (here / "empty").mkdir()
    found = find_recordings(["a.wav", "-", "gone.wav", "empty", "x" * 5000, "a\0b"])
    assert list(files_of(found)) == [Path("a.wav")]
