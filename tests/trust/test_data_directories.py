"""Bad data directories and audio files are refused with their culprit named; sound ones pass.

The cases are made from tables of (name, mutation, culprit). `make trust` runs all of them, `make test` some.
"""

import os
import shutil
import time

import numpy as np
import pytest
import soundfile
from references.bad_audio import KINDS, RATE, patched, sound

from espnet_diverse.data.checks.validate import find_faults, validate
from espnet_diverse.data.faults import FaultsError, decisive
from espnet_diverse.data.tables import write_table

NAMES = ("u1", "u2", "u3", "u4")
TEXTS = {"u1": "eins zwei", "u2": "drei", "u3": "vier fünf", "u4": "sechs"}
TABLES = {
    "text": TEXTS,
    "utt2spk": dict.fromkeys(NAMES, "s"),
    "utt2lang": dict.fromkeys(NAMES, "de"),
    "src_text": TEXTS,
}


def make(folder, **options):
    """A sound directory of four utterances of 0.6 s, whose audio differs; its parts are in every table."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for name in NAMES:
        samples = sound(0.6) * 0.5 + random.normal(0, 0.01, round(0.6 * RATE)).astype(np.float32)
        soundfile.write(folder / f"{name}.wav", samples, RATE, **options)
    write_table(folder / "wav.scp", {name: str(folder / f"{name}.wav") for name in NAMES})
    for table, content in TABLES.items():
        write_table(folder / table, content)
    write_table(folder / "segments", {name: f"{name} 0 0.6" for name in NAMES})
    return folder


def line(change):
    """Replace the second line of a table, as bytes."""

    def mutate(path):
        lines = path.read_bytes().splitlines(keepends=True)
        lines[1] = change(lines[1])
        path.write_bytes(b"".join(lines))

    return mutate


def special(make_one):
    def mutate(path):
        path.unlink()
        make_one(path)

    return mutate


LINES = {
    "without a value": (lambda old: b"u2\n", ":2|u2"),
    "removed": (lambda old: b"", "u2"),
    "twice": (lambda old: 2 * old, ":3"),
    "twice with another value": (lambda old: old + b"u2 u1 0 0.3\n", ":3"),
    "of a stranger": (lambda old: old + old.replace(b"u2", b"u9", 1), "u9"),
    "with NUL": (lambda old: old.replace(b"\n", b"\0\n"), ":2"),
    "with a bell": (lambda old: old.replace(b"\n", b"\a\n"), ":2"),
    "with an escape": (lambda old: old.replace(b"\n", b"\x1b[2J\n"), ":2"),
    "with a control character in the id": (lambda old: old.replace(b"u2", b"u\x012", 1), ":2"),
    "in latin-1": (lambda old: old.replace(b"\n", b"\xfc\n"), ":2"),
    "in GBK": (lambda old: old.replace(b"\n", "你好".encode("gbk") + b"\n"), ":2"),
    "with half a character": (lambda old: old.replace(b"\n", "你".encode()[:2] + b"\n"), ":2"),
    "with an id that leaves the folder": (lambda old: old.replace(b"u2", b"../../u2", 1), ":2"),
    "with an id of a shell": (lambda old: old.replace(b"u2", b"u$(id)", 1), ":2"),
    "with an id of a pipe": (lambda old: old.replace(b"u2", b"u|2", 1), ":2"),
    "with an id of 300 bytes": (lambda old: old.replace(b"u2", b"u" * 300, 1), ":2"),
    "with an id of quotes": (lambda old: old.replace(b"u2", b"'u2'", 1), ":2"),
    "of two million bytes": (lambda old: old.replace(b"\n", b" x" * 1_000_000 + b"\n"), ":2"),
}
FILES = {
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "of blank lines": (lambda path: path.write_bytes(b"\n \n\t\n"), "is empty"),
    "a folder": (special(lambda path: path.mkdir()), "cannot be read"),
    "a pipe": (special(os.mkfifo), "cannot be read"),
    "a device": (special(lambda path: path.symlink_to("/dev/zero")), "cannot be read"),
    "in UTF-16": (lambda path: path.write_bytes(path.read_text().encode("utf-16")), "UTF-16"),
    "random": (lambda path: path.write_bytes(np.random.default_rng(0).bytes(2000)), ":"),
    "a gzip": (lambda path: path.write_bytes(b"\x1f\x8b\x08" + bytes(200)), ":"),
}
OWN = {
    ("text", "reserved symbol"): (line(lambda old: b"u2 a <sos/eos>\n"), "text:2"),
    ("text", "blank symbol"): (line(lambda old: b"u2 <blank>\n"), "text:2"),
    ("text", "unknown symbol"): (line(lambda old: b"u2 <unk> x\n"), "text:2"),
    ("text", "Kaldi's symbol"): (line(lambda old: b"u2 </s>\n"), "text:2"),
    ("text", "too much text"): (line(lambda old: b"u2 " + 3000 * b"x" + b"\n"), "u2"),
    ("text", "punctuation"): (line(lambda old: b"u2 ...\n"), "u2"),
    ("text", "spaces"): (line(lambda old: "u2 \u3000\xa0\n".encode()), ":2"),
    ("text", "invisible"): (line(lambda old: "u2 \u200b\ufeff\n".encode()), ":2"),
    ("utt2spk", "two names"): (line(lambda old: b"u2 a b\n"), ":2"),
    ("utt2lang", "two names"): (line(lambda old: b"u2 de en\n"), ":2"),
    ("utt2spk", "path"): (line(lambda old: b"u2 ../s\n"), ":2"),
    ("wav.scp", "pipe"): (line(lambda old: b"u2 touch ran |\n"), ":2"),
    ("wav.scp", "pipe into"): (line(lambda old: b"u2 | touch ran\n"), ":2"),
    ("wav.scp", "no file"): (line(lambda old: b"u2 /nowhere/u2.wav\n"), "u2"),
    ("wav.scp", "ark without an entry"): (line(lambda old: b"u2 /nowhere/x.ark:17\n"), "u2"),
    ("wav.scp", "device"): (line(lambda old: b"u2 /dev/zero\n"), "u2"),
    ("wav.scp", "web address"): (line(lambda old: b"u2 https://example.org/a.wav\n"), "u2"),
    **{
        ("segments", name): (line(lambda old, value=value: f"u2 {value}\n".encode()), ":2|u2")
        for name, value in {
            "backwards": "u2 0.5 0.2",
            "empty": "u2 0.2 0.2",
            "negative": "u2 -1 0.3",
            "past the end": "u2 0.9 2.0",
            "NaN": "u2 nan 0.5",
            "infinite": "u2 0 inf",
            "words": "u2 start end",
            "one number": "u2 0.3",
            "three numbers": "u2 0 0.3 0.4",
            "of no recording": "u8 0 0.3",
            "very short": "u2 0.1 0.11",
            "huge": "u2 0 1e308",
        }.items()
    },
}
TABLE_NAMES = ("wav.scp", "segments", *TABLES)
BAD = {
    **{
        (table, f"line {name}"): (line(change), said) for table in TABLE_NAMES for name, (change, said) in LINES.items()
    },
    **{(table, f"file {name}"): case for table in TABLE_NAMES for name, case in FILES.items()},
    **OWN,
}
MORE_AUDIO = {
    "silence": lambda path: soundfile.write(path, np.zeros(RATE), RATE, format="WAV"),
    "constant": lambda path: soundfile.write(path, np.full(RATE, 0.3), RATE, format="WAV"),
    "one sample": lambda path: soundfile.write(path, np.full(1, 0.3), RATE, format="WAV"),
    "20 ms": lambda path: soundfile.write(path, sound(0.02), RATE, format="WAV"),
    "half of it in the header": patched(40, "<I", RATE),
    "a tenth of it in the header": patched(40, "<I", RATE // 5),
}
AUDIO = KINDS | MORE_AUDIO


def refusal(folder) -> str:
    """All decisive faults of a directory."""
    start = time.monotonic()
    with pytest.raises(FaultsError) as caught:
        validate(folder)
    assert time.monotonic() - start < 20
    assert "\n" not in str(caught.value) and not (folder / "ran").exists()
    return "\n".join(map(str, caught.value.faults))


def check_bad(tmp_path, cases):
    for number, (table, name) in enumerate(cases):
        folder = make(tmp_path / str(number))
        mutate, culprits = BAD[table, name]
        mutate(folder / table)
        said = refusal(folder)
        rows = [row for row in said.splitlines() if table in row or "u2" in row]
        named = any(culprit in row for row in rows for culprit in culprits.split("|"))
        assert named, (table, name, said[:500])
        shutil.rmtree(folder)


def check_audio(tmp_path, kinds):
    for number, kind in enumerate(kinds):
        folder = make(tmp_path / str(number))
        (folder / "segments").unlink()
        (folder / "u2.wav").unlink()
        AUDIO[kind](folder / "u2.wav")
        assert any("u2: " in row for row in refusal(folder).splitlines()), kind
        shutil.rmtree(folder)


SCRIPTS = {
    "Latin": "çok güzel",
    "Chinese": "你 好",
    "Arabic": "مرحبا بكم",
    "Persian": "می\u200cروم",
    "Cyrillic": "привет мир",
    "Devanagari": "नमस्ते",
}
FORMS = {
    "plain": lambda text: text,
    "tabs": lambda text: text.replace(" ", "\t", 1).replace("\nu", "\nu"),
    "no final newline": lambda text: text.rstrip("\n"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "blank lines": lambda text: "\n" + text.replace("\n", "\n\n"),
    "byte order mark": lambda text: "\ufeff" + text,
    "unsorted": lambda text: "".join(sorted(text.splitlines(keepends=True), reverse=True)),
    "double spaces": lambda text: text.replace(" ", "  "),
    "spaces of other kinds": lambda text: "".join(f"{row}\xa0\u3000\n" for row in text.splitlines()),
}
FORMATS = {
    "wav 8": {"subtype": "PCM_U8"},
    "wav 16": {"subtype": "PCM_16"},
    "wav 24": {"subtype": "PCM_24"},
    "wav 32": {"subtype": "PCM_32"},
    "wav float": {"subtype": "FLOAT"},
    "mu-law": {"subtype": "ULAW"},
    "flac": {"format": "FLAC"},
    "ogg": {"format": "OGG", "subtype": "VORBIS"},
    "opus": {"format": "OGG", "subtype": "OPUS"},
    "mp3": {"format": "MP3", "subtype": "MPEG_LAYER_III"},
    "aiff": {"format": "AIFF"},
    "sph": {"format": "NIST"},
}
SOUND = [*((script, form) for script in SCRIPTS for form in FORMS), *(("format", name) for name in FORMATS)]


def check_sound(tmp_path, cases):
    for number, (script, form) in enumerate(cases):
        options = FORMATS[form] if script == "format" else {}
        folder = make(tmp_path / f"a b ü {number}", **options)
        if script != "format":
            text = "".join(f"{name} {SCRIPTS[script]}\n" for name in NAMES)
            (folder / "text").write_text(FORMS[form](text), encoding="utf-8", newline="")
        if number % 2:
            (folder / "segments").unlink()
        if number % 3:
            (folder / "utt2spk").unlink()
        assert decisive(find_faults(folder)) == [], (script, form)
        shutil.rmtree(folder)


def test_some_bad_directories_are_refused_by_name(tmp_path):
    check_bad(tmp_path, [*BAD][::7])


def test_some_bad_audio_is_refused_by_name(tmp_path):
    check_audio(tmp_path, [*AUDIO][::4])


def test_some_sound_directories_pass(tmp_path):
    check_sound(tmp_path, SOUND[::5])


@pytest.mark.trust
def test_all_bad_directories_are_refused_by_name(tmp_path, capsys):
    assert len(BAD) >= 150
    check_bad(tmp_path, BAD)
    with capsys.disabled():
        print(f"\nbad data directories: {len(BAD)} of {len(BAD)} refused, each with its culprit")


@pytest.mark.trust
def test_all_bad_audio_is_refused_by_name(tmp_path, capsys):
    assert len(AUDIO) >= 60
    check_audio(tmp_path, AUDIO)
    with capsys.disabled():
        print(f"\nbad audio files: {len(AUDIO)} of {len(AUDIO)} refused, each with its utterance")


@pytest.mark.trust
def test_all_sound_directories_pass(tmp_path, capsys):
    assert len(SOUND) >= 40
    check_sound(tmp_path, SOUND)
    with capsys.disabled():
        print(f"\nsound data directories: 0 false alarms in {len(SOUND)}")
