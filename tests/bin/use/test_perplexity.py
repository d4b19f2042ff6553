"""perplexity: the printed line and the files for a data directory. The numbers are tested in decoding."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.decoding.directory import perplexity as decoding

NUMBERS = {"texts": 5, "tokens": 20, "words": 7, "unknown_tokens": 0, "perplexity": 3.25, "word_perplexity": 29.0}


@pytest.mark.usefixtures("unchecked_paths")
def test_the_row_and_the_printed_line(monkeypatch, tmp_path, capsys):
    """The model is replaced by `NUMBERS`."""
    asked = []

    def perplexity(scorer, data_dir, output_dir, conditions):
        asked.append((*scorer, data_dir.name, conditions))
        return NUMBERS

    monkeypatch.setattr(decoding, "Scorer", lambda *arguments: arguments)
    monkeypatch.setattr(decoding, "perplexity", perplexity)
    (tmp_path / "exp").mkdir()
    arguments = ["perplexity", str(tmp_path / "exp"), "--data_dir", "test", "--language", "de"]
    out, results = tmp_path / "exp" / "ppl" / "test", tmp_path / "RESULTS.md"
    assert main([*arguments, "--output_dir", str(out), "--results", str(results)]) == 0
    assert asked == [(tmp_path / "exp", None, "cpu", "test", {"lang": "de"})]
    assert capsys.readouterr().out == decoding.line(NUMBERS) + "\n"
    assert "### Perplexity\n" in results.read_text() and "|ppl/test|5|3.25|29.00|\n" in results.read_text()


def test_a_model_of_speech_has_no_perplexity(tiny_run, tmp_path, capfd):
    paths = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path)]
    model_file = ["--model_file", "valid.acc.ave.pth"]
    assert main(["perplexity", str(tiny_run.model_dir), *model_file, *paths]) == 1
    assert "is a model of task asr, not a language model" in capfd.readouterr().err
    assert not (tmp_path / "score").exists()


def test_inputs_and_outputs(parse):
    module, args = parse("perplexity", ["exp", "--data_dir", "data", "--output_dir", "out"])
    assert [str(path) for path in module.inputs(args)] == ["exp/config.yaml", "exp/valid.loss.ave.pth", "data"]
    assert [str(path) for path in module.outputs(args)] == ["out/score", "out/perplexity.json"]
