"""Speaker turns: reading, the speaker of a part, and invalid lines."""

import pytest

from espnet_diverse.data.rttm import Turn, read_turns, speaker_of
from espnet_diverse.errors import DataError

TURNS = [Turn(0.0, 2.0, "anna"), Turn(1.5, 4.0, "ben"), Turn(10.0, 11.0, "anna")]


def test_turns_are_read_by_recording(tmp_path):
    lines = ["SPKR-INFO talk 1 <NA> <NA> <NA> unknown anna <NA>", "SPEAKER talk 1 2.5 1 <NA> <NA> ben <NA> <NA>"]
    lines += ["SPEAKER talk 1 0.25 1.5 <NA> <NA> anna <NA> <NA>", "", "SPEAKER other 1 0 1 <NA> <NA> x"]
    (tmp_path / "a.rttm").write_text("\n".join(lines) + "\n")
    talk = [Turn(0.25, 1.75, "anna"), Turn(2.5, 3.5, "ben")]
    assert read_turns(tmp_path / "a.rttm") == {"talk": talk, "other": [Turn(0.0, 1.0, "x")]}


@pytest.mark.parametrize(
    ("start", "end", "speaker"),
    [(0, 1, "anna"), (1.4, 2.6, "ben"), (1.0, 11.0, "ben"), (8.0, 9.0, "anna"), (5, 6, "ben")],
)
def test_a_part_is_of_the_speaker_with_the_most_time_or_the_nearest(start, end, speaker):
    assert speaker_of(TURNS, start, end) == speaker


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("SPEAKER talk 1 x 1 <NA> <NA> anna", ":1: is no turn; the columns are SPEAKER recording 1 start length"),
        ("SPEAKER talk 1 0 -1 <NA> <NA> anna", ":1: is no turn"),
        ("SPEAKER talk 1 0", ":1: is no turn"),
        ("SPEAKER talk 1 0 1 <NA> <NA> a\x1b[2J", ":1: speaker: "),
        ("LEXEME talk", ": has no line of type SPEAKER"),
    ],
)
def test_invalid_turns_are_refused(tmp_path, line, said):
    (tmp_path / "a.rttm").write_text(f"{line}\n")
    with pytest.raises(DataError, match=f"a.rttm{said}"):
        read_turns(tmp_path / "a.rttm")
