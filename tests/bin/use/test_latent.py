"""latent: the printed lines and the files; errors by their text. The numbers are tested in decoding."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import read_table


def test_the_codes_of_a_data_directory(tiny_autoencoder, tmp_path, capsys):
    run, out, results = tiny_autoencoder, tmp_path / "latent/test", tmp_path / "RESULTS.md"
    data = ["--data_dir", str(run.test_dir), "--output_dir", str(out), "--results", str(results)]
    assert main(["latent", str(run.model_dir), *data, "--importance_samples", "2"]) == 0
    assert "5 texts: reconstruction " in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} >= {"codes.npz", "latent.json"}
    assert "### Latent codes\n" in results.read_text() and "|latent/test|5|" in results.read_text()


def test_texts_of_codes(tiny_autoencoder, capsys):
    assert main(["latent", str(tiny_autoencoder.model_dir), "--samples", "2"]) == 0
    drawn = capsys.readouterr().out
    assert main(["latent", str(tiny_autoencoder.model_dir), "--between", "abc", "d", "--steps", "3"]) == 0
    assert (drawn.count("\n"), capsys.readouterr().out.count("\n")) == (2, 3)


def test_texts_are_decoded_into_themselves(tiny_autoencoder, tmp_path, capsys):
    """`decode` reads the text where a translation reads the source, and `translate` any line."""
    run = tiny_autoencoder
    where = ["--data_dir", str(run.test_dir), "--output_dir", str(tmp_path), "--maxlenratio", "1.0"]
    assert main(["decode", str(run.model_dir), *where, "--beam_size", "1", "--nj", "1"]) == 0
    found, texts = read_table(tmp_path / "text", "hypothesis"), read_table(run.test_dir / "text")
    assert found.keys() == texts.keys()
    capsys.readouterr()
    lines = [word for text in texts.values() for word in ("--text", text)]
    assert main(["translate", str(run.model_dir), *lines, "--maxlenratio", "1.0", "--beam_size", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == list(found.values())


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is nothing to do; give --data_dir with --output_dir, --samples or --between"),
        (["--data_dir", "x"], "--data_dir and --output_dir need each other; give both"),
        (["--samples", "2", "--results", "R.md"], "--results R.md is for --data_dir; give that too, or leave it out"),
        (["--samples", "2", "--importance_samples", "50"], "--importance_samples 50 is for --data_dir; give that too"),
        (["--samples", "2", "--steps", "9"], "--steps 9 is for --between; give that too, or leave it out"),
        (["--samples", "-1"], "--samples must be at least 0, but is -1"),
        (["--between", "a", "b", "--steps", "1"], "--steps must be at least 2, but is 1"),
    ],
)
def test_invalid_or_incomplete_options_are_refused(tiny_autoencoder, capfd, arguments, said):
    assert main(["latent", str(tiny_autoencoder.model_dir), *arguments]) == 1
    assert said in capfd.readouterr().err


def test_inputs_and_outputs(parse):
    module, args = parse("latent", ["exp", "--data_dir", "data", "--output_dir", "out"])
    assert [str(path) for path in module.inputs(args)][-1] == "data"
    assert [str(path) for path in module.outputs(args)] == ["out/codes.npz", "out/latent.json"]
