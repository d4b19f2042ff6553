"""The commands pack and export, and a packed model as MODEL."""

import zipfile

import pytest
import torch

from espnet_diverse.bin.main import main
from espnet_diverse.runs import checkpoint


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def packed(tiny_run, tmp_path, capfd):
    path = tmp_path / "model.zip"
    facts = ["--name", "Tones", "--license", "cc0-1.0", "--languages", "zxx", "--data", "Tones of four letters."]
    assert main(["pack", str(tiny_run.model_dir), "--output", str(path), *facts]) == 0
    assert capfd.readouterr().out.strip() == str(path)
    return path


def test_a_packed_model_has_its_card_and_both_kinds_of_weights(packed):
    with zipfile.ZipFile(packed) as archive:
        names, card = archive.namelist(), archive.read("README.md").decode()
    assert {"meta.yaml", "config.yaml", "tokens.txt", "valid.acc.ave.pth", "model.safetensors"} <= set(names)
    assert card.startswith("---\nlicense: cc0-1.0\nlanguage:\n- zxx\n") and "# Tones\n" in card
    assert "## Data\n\nTones of four letters.\n" in card and "| encoder attention | sdma" in card


def test_the_card_has_the_results_of_a_file(tiny_run, tmp_path, capfd):
    path, results = tmp_path / "model.zip", tmp_path / "RESULTS.md"
    results.write_text("| set | CER |\n|---|---|\n| test | 4.2 |\n")
    command = ["pack", str(tiny_run.model_dir), "--results", str(results), "--output"]
    assert main([*command, str(path)]) == 0, capfd.readouterr().err
    with zipfile.ZipFile(path) as archive:
        assert "| test | 4.2 |" in archive.read("README.md").decode()
    assert main([*command, str(results)]) == 1
    assert f"{results}: is the file to read, {results}; choose another path" in capfd.readouterr().err


def test_other_commands_take_it(tiny_run, packed, tmp_path, capfd):
    model = [str(packed)]
    data = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out")]
    assert main(["figure", *model, *data]) == 0
    assert (tmp_path / "out" / "test-00.encoder.png").is_file()
    assert main(["figure", *model, *data[2:]]) == 1
    assert f"figure: error: {packed}: no checkpoint.pth has statistics" in capfd.readouterr().err
    assert main(["perplexity", *model, *data]) == 1
    assert "is a model of task asr, not a language model" in capfd.readouterr().err
    assert main(["export", "safetensors", *model, "--output", str(tmp_path / "new" / "w.safetensors")]) == 0
    found = checkpoint.load(tmp_path / "new" / "w.safetensors")
    expected = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert main(["pack", *model, "--output", *model]) == 1
    assert f"pack: error: {packed}: is the file to read, {packed}" in capfd.readouterr().err
    (tmp_path / "no.zip").write_text("no")
    assert main(["decode", str(tmp_path / "no.zip"), *data]) == 1
    assert (
        "error: " in (said := capfd.readouterr().err) and "no.zip: is not a packed model, which is a zip file" in said
    )


@pytest.mark.parametrize("member", [None, "notes.md", "meta.yaml"])
def test_no_file_of_others_is_replaced(tiny_run, tmp_path, capfd, member):
    path = tmp_path / "thesis.zip"
    path.write_text("mine")
    if member:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, "espnet: 202511\n")
    before = path.read_bytes()
    assert main(["pack", str(tiny_run.model_dir), "--output", str(path)]) == 1
    assert "thesis.zip: exists, and `pack` has not written it; move it away or choose" in capfd.readouterr().err
    assert path.read_bytes() == before


def test_a_former_packed_model_is_replaced(tiny_run, packed):
    before = packed.read_bytes()
    assert main(["pack", str(tiny_run.model_dir), "--output", str(packed)]) == 0
    assert packed.read_bytes() != before
