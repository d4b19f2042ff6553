"""The weights that commands take by default are those that `train` and `average` write, whatever a run measures."""

from references.train_command import train

from espnet_diverse.bin.main import main


def test_a_run_without_accuracy_needs_no_name_of_its_weights(tiny_run, tmp_path, capfd):
    """One of CTC alone, with a criterion of its own."""
    run, changes = tmp_path / "run", ("model_conf.ctc_weight=1.0", "best_model_criterion=[[valid, cer_ctc, min]]")
    assert train(tiny_run, run, *changes, "max_epoch=1") == 0
    capfd.readouterr()
    assert main(["average", str(run), "--number", "1"]) == 0
    assert capfd.readouterr().out.strip() == str(run / "valid.cer_ctc.ave.pth")
    packed, wav = tmp_path / "model.zip", next(tiny_run.test_dir.glob("*.wav"))
    assert main(["pack", str(run), "--output", str(packed)]) == 0
    for name, model in (("run", run), ("packed", packed)):
        out = tmp_path / f"decoded_{name}"
        assert main(["decode", str(model), "--data_dir", str(tiny_run.test_dir), "--output_dir", str(out)]) == 0
        assert main(["transcribe", str(model), str(wav)]) == 0
    texts = [(tmp_path / f"decoded_{name}" / "text").read_text() for name in ("run", "packed")]
    assert texts[0] == texts[1] and texts[0]
    assert main(["transcribe", str(packed), str(wav), "--model_file", "nofile"]) == 1
    assert f"error: {packed}/nofile: no such model file" in capfd.readouterr().err  # and not its folder in the cache
