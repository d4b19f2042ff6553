"""`espnet-diverse align`: its options; tests/transcription/test_given_text.py tests its output files."""

import pytest

from espnet_diverse.bin.main import command_parser, main
from espnet_diverse.bin.use.align import FORMATS
from espnet_diverse.transcription.given_text import ALIGNMENT_FORMATS


def test_format_choices_match_the_writers():
    assert tuple(ALIGNMENT_FORMATS) == FORMATS


@pytest.mark.parametrize("given", [[], ["--text", "a", "--text_file", "b"]])
def test_one_text_is_needed(given, capsys):
    _, parser = command_parser("align")
    with pytest.raises(SystemExit, match="1"):
        parser.parse_args(["model", "a.wav", *given])
    assert "--text" in capsys.readouterr().err


def test_a_file_of_texts_that_is_not_there_is_named(tiny_run, tmp_path, capsys):
    arguments = [str(tiny_run.model_dir), "a.wav", "--text_file", str(tmp_path / "gone.txt")]
    assert main(["align", *arguments]) == 1
    assert f"{tmp_path}/gone.txt" in capsys.readouterr().err


def test_the_folder_of_the_output_is_made(tiny_run, tmp_path):
    output = tmp_path / "new" / "times.json"
    audio = str(tiny_run.test_dir / "test-00.wav")
    assert main(["align", str(tiny_run.model_dir), audio, "--text", "ab", "--output", str(output)]) == 0
    assert output.stat().st_size
