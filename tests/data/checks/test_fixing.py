"""A repaired copy of a data directory, and the speakers and sentences that two directories share."""

import tracemalloc

import kaldiio
import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.checks.fixing import left_out, shared, write_fixed
from espnet_diverse.data.checks.validate import find_faults, validate
from espnet_diverse.data.faults import ACTIONS, Fault
from espnet_diverse.data.kaldi import DataDir, keep_utterances, read_data_dir, scan_tables, write_data_dir
from espnet_diverse.data.output_paths import MARK
from espnet_diverse.data.tables import read_table, write_table
from espnet_diverse.errors import DataError


def test_tables_become_plain_and_sorted(data, data_dir, tmp_path):
    (data_dir / "text").write_bytes("b1\tfour\xa0five\r\n\na2 三\u200b\na1  一 二".encode())
    assert write_fixed(data_dir, tmp_path / "fixed", find_faults(data_dir)) == (3, 0)
    assert (tmp_path / "fixed" / "text").read_text(encoding="utf-8") == "a1 一 二\na2 三\nb1 four five\n"
    assert read_data_dir(tmp_path / "fixed") == read_data_dir(data_dir)


def test_utterances_are_dropped_with_a_list(data, data_dir, tmp_path):
    soundfile.write(data.wav_scp["a1"], np.zeros(8000, np.int16), 16000)
    write_table(data_dir / "text", data.text | {"b1": "x" * 300})
    write_table(data_dir / "spk2gender", {"a": "f", "b": "m"})
    write_table(data_dir / "utt2note", {"a1": "silent", "a2": "-"})
    assert write_fixed(data_dir, tmp_path / "fixed", find_faults(data_dir)) == (1, 2)
    fixed = read_data_dir(tmp_path / "fixed")
    assert fixed.utterances() == ["a2"] and fixed.utt2spk == {"a2": "a"}
    rows = (tmp_path / "fixed" / "dropped.tsv").read_text().splitlines()
    assert rows[1].startswith("a1\t") and "is silent" in rows[1] and rows[2].startswith("b1\tthe transcript has 300 ")
    validate(tmp_path / "fixed")
    assert read_table(tmp_path / "fixed" / "spk2gender") == {"a": "f", "b": "m"}
    assert read_table(tmp_path / "fixed" / "utt2note") == {"a2": "-"}


def test_a_silent_recording_takes_its_segments_along(data, tmp_path):
    soundfile.write(data.wav_scp["a1"], np.zeros(8000, np.int16), 16000)
    data.segments = {"u": Segment("a1", 0.0, 0.4), "v": Segment("a2", 0.0, 0.4), "w": Segment("a2", 0.0, 0.05)}
    data.text, data.utt2spk = dict.fromkeys("uvw", "x"), dict.fromkeys("uvw", "s")
    del data.wav_scp["b1"]
    write_data_dir(data, tmp_path / "set")
    faults = find_faults(tmp_path / "set")
    assert left_out(tmp_path / "set", faults) == "leaves out 2 of 3 utterances: u w"
    later = left_out(tmp_path / "set", [*faults, Fault("text", 1, "is empty")])
    assert later == "leaves out 2 of 3 utterances, once the other faults are fixed: u w"
    assert write_fixed(tmp_path / "set", tmp_path / "fixed", faults) == (1, 2)
    fixed = read_data_dir(tmp_path / "fixed")
    assert list(fixed.segments) == ["v"] and list(fixed.wav_scp) == ["a2"]


def test_channels_that_cancel_take_the_segments_of_their_mean_along(tmp_path):
    wave = 0.3 * np.sin(np.arange(48000) / 8)
    soundfile.write(tmp_path / "r.wav", np.stack([wave, -wave], 1), 16000)
    data = DataDir({"r": str(tmp_path / "r.wav")}, dict.fromkeys("uvw", "some words"), dict.fromkeys("uvw", "s"))
    data.segments = {"u": Segment("r", 0.0, 1.0, 0), "v": Segment("r", 1.0, 2.0), "w": Segment("r", 2.0, 3.0, 1)}
    write_data_dir(data, tmp_path / "set")
    faults = find_faults(tmp_path / "set")
    assert left_out(tmp_path / "set", faults) == "leaves out 1 of 3 utterances: v"
    assert write_fixed(tmp_path / "set", tmp_path / "fixed", faults) == (2, 1)
    assert list(read_data_dir(tmp_path / "fixed").segments) == ["u", "w"]


def test_utterances_with_faulty_lines_are_dropped(data, data_dir, tmp_path):
    write_table(data_dir / "text", data.text | {"a2": "a <unk> b"})
    faults, drop = find_faults(data_dir), ACTIONS | {"table": "drop"}
    assert left_out(data_dir, faults, drop) == "leaves out 1 of 3 utterances: a2"
    assert write_fixed(data_dir, tmp_path / "fixed", faults, drop) == (2, 1)
    assert "a2" not in read_data_dir(tmp_path / "fixed").text


def test_undroppable_faults_and_unsafe_targets_are_refused(data, data_dir, tmp_path):
    write_table(data_dir / "text", {"a1": "x", "a2": "y", "c1": "z"})
    faults = find_faults(data_dir)
    with pytest.raises(DataError, match="^2 faults: .*text: c1: transcript without audio"):
        write_fixed(data_dir, tmp_path / "fixed", faults)
    assert not (tmp_path / "fixed").exists()
    assert write_fixed(data_dir, tmp_path / "fixed", faults, ACTIONS | {"missing": "drop"}) == (2, 2)
    (data_dir / "text").write_text("a1 x\na1 y\n")
    with pytest.raises(DataError, match="text:2: duplicate id 'a1'"):
        write_fixed(data_dir, tmp_path / "other", find_faults(data_dir), dict.fromkeys(ACTIONS, "drop"))
    (tmp_path / "link").symlink_to(data_dir)
    for other, what in ((data_dir, "is the directory to read"), (tmp_path / "link", "is the directory to read")):
        with pytest.raises(DataError, match=f"^{other}: {what}, {data_dir}; choose another path"):
            write_fixed(data_dir, other, [])
    with pytest.raises(DataError, match=f"^{tmp_path}: contains {data_dir}, which is read; choose another path"):
        write_fixed(data_dir, tmp_path, [])
    write_data_dir(data, tmp_path / "original")
    with pytest.raises(DataError, match="original: exists, and nothing shows that espnet-diverse has written it"):
        write_fixed(data_dir, tmp_path / "original", [])
    write_table(data_dir / "text", dict.fromkeys(data.text, "x" * 300))
    with pytest.raises(DataError, match="no utterance is left of 3; see the list of faults"):
        write_fixed(data_dir, tmp_path / "other", find_faults(data_dir))


def test_shared_speakers_and_sentences_are_named(data, data_dir, tmp_path):
    data.utt2spk, data.text = dict.fromkeys(data.utt2spk, "b"), data.text | {"a1": "new", "a2": "new, too"}
    write_data_dir(data, tmp_path / "test")
    assert [str(fault).removeprefix(f"{tmp_path}/test/") for fault in shared(tmp_path / "test", data_dir)] == [
        f"utt2spk: b: this speaker is also in {data_dir}",
        f"text: b1: this sentence is also in {data_dir}: 'four five'",
    ]
    (data_dir / "utt2spk").unlink()
    data.utt2spk = {}
    write_data_dir(data, tmp_path / "test")
    found = list(shared(tmp_path / "test", data_dir))
    assert {fault.where for fault in found} == {"a1", "a2", "b1"}
    assert {fault.file for fault in found} == {f"{tmp_path}/test/wav.scp", f"{tmp_path}/test/text"}
    for folder in (data_dir, tmp_path / "test"):
        (folder / "wav.scp").unlink()
    assert {fault.kind for fault in shared(tmp_path / "test", data_dir)} == {"shared_text"}


@pytest.mark.parametrize("speakers", [True, False])
def test_features_are_kept_and_their_speakers_compared(data, data_dir, tmp_path, speakers):
    (data_dir / "wav.scp").unlink()
    features = {name: np.ones((3, 2), np.float32) for name in data.text}
    kaldiio.save_ark(str(data_dir / "x.ark"), features, scp=str(data_dir / "feats.scp"))
    if not speakers:
        (data_dir / "utt2spk").unlink()
    faults = [*find_faults(data_dir, features=0), Fault(f"{data_dir}/text", "a1", "is odd", "same_text")]
    assert left_out(data_dir, faults, ACTIONS | {"same_text": "drop"}) == "leaves out 1 of 3 utterances: a1"
    assert write_fixed(data_dir, tmp_path / "fixed", faults, ACTIONS | {"same_text": "drop"}) == (2, 1)
    fixed, _ = scan_tables(tmp_path / "fixed", "feats.scp")
    assert (tmp_path / "fixed" / "feats.scp").is_file() and not (tmp_path / "fixed" / "wav.scp").exists()
    assert list(fixed.wav_scp) == list(fixed.text) == ["a2", "b1"] and bool(fixed.utt2spk) == speakers
    assert find_faults(tmp_path / "fixed", features=0) == []
    found = {fault.where for fault in shared(tmp_path / "fixed", data_dir) if fault.kind == "shared_speaker"}
    assert found == ({"a", "b"} if speakers else {"a2", "b1"})


def test_the_files_match_the_same_utterances_in_memory(data, tmp_path):
    """A copy repaired row by row equals the tables that are filtered in memory, byte for byte."""
    data.segments = {f"u{n}": Segment("a1" if n % 2 else "a2", n / 100, n / 100 + 0.2) for n in range(9)}
    data.text, data.utt2spk, data.src_text = ({u: f"{word} {u}" for u in data.segments} for word in ("x", "s", "y"))
    data.utt2spk = {u: f"s{n // 3}" for n, u in enumerate(data.segments)}
    data.conditions = {"utt2lang": dict.fromkeys(data.segments, "de")}
    del data.utt2spk["u5"], data.src_text["u0"]
    data.text["v"] = "no audio"
    write_data_dir(data, tmp_path / "set")
    reasons = {"u2": "short", "v": "no audio"}
    faults = [Fault("set/text", utterance, what, "short") for utterance, what in reasons.items()]
    assert write_fixed(tmp_path / "set", tmp_path / "fixed", faults, ACTIONS | {"short": "drop"}) == (6, 2)
    kept = keep_utterances(data, {"u1", "u3", "u4", "u6", "u7", "u8"})
    kept.dropped = reasons
    write_data_dir(kept, tmp_path / "expected")
    names = sorted(file.name for file in (tmp_path / "expected").iterdir())
    assert [MARK, *names] == sorted(file.name for file in (tmp_path / "fixed").iterdir()) and "dropped.tsv" in names
    for name in names:
        assert (tmp_path / "fixed" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


def test_rows_are_not_kept_in_memory(tmp_path):
    rows = 4000
    for name in ("set", "other"):
        write_data_dir(
            DataDir(text={f"{name}{n:06d}": f"the sentence {n} of {name}" for n in range(rows)}), tmp_path / name
        )
    tracemalloc.start()
    try:
        assert write_fixed(tmp_path / "set", tmp_path / "fixed", []) == (rows, 0)
        assert list(shared(tmp_path / "set", tmp_path / "other")) == []
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "fixed" / "text").read_bytes() == (tmp_path / "set" / "text").read_bytes()
    assert taken < 250 * rows
