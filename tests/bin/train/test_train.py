"""train: the files that it reads and writes."""

from references.train_command import train

from espnet_diverse.text.vocabulary import Vocabulary


def test_what_is_read_and_written_is_there_after_the_run(tiny_run, parse):
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tiny_run.model_dir)]
    module, args = parse("train", [*tiny_run.config, *tiny_run.data(), *paths])
    assert all(path.exists() for path in module.inputs(args) + module.outputs(args))
    names = {path.name for path in module.inputs(args)}
    assert names >= {"tiny.yaml", "sdma.yaml", "train", "valid", "tokens.txt", "feats_stats.npz"}
    assert {path.name for path in module.outputs(args)} == {"config.yaml", "train.yaml", "checkpoint.pth"}


def test_training_reads_the_models_and_vocabularies_that_it_is_given(tiny_run, parse):
    arguments = [*tiny_run.config, *tiny_run.data(), "--stats_dir", "stats", "--output_dir", "exp", "--task", "st"]
    arguments += ["--src_tokens_dir", "source", "--init_param", "asr/ave.pth:encoder:encoder", "mt/ave.pth:decoder"]
    module, args = parse("train", arguments)
    assert {str(path) for path in module.inputs(args)} >= {"asr/ave.pth", "mt/ave.pth", "source/tokens.txt"}


def test_weights_are_not_taken_for_a_vocabulary_in_another_order(tiny_run, tmp_path, capfd):
    """As one that `tokens` makes for a model of ESPnet, whose tokens are in the order of its own list."""
    tokens = Vocabulary.load(tiny_run.tokens_dir).tokens
    Vocabulary("char", [*tokens[:2], *tokens[-2:1:-1], tokens[-1]]).save(tmp_path / "tokens")
    weights = f"init_param=[{tiny_run.model_dir}/valid.acc.ave.pth]"
    assert train(tiny_run, tmp_path / "exp", weights, tokens_dir=tmp_path / "tokens") == 1
    said = capfd.readouterr().err.splitlines()[-1]
    assert "decoder.embed.0.weight (of other tokens)" in said and "vocabulary (--tokens_dir)" in said
    assert not [*(tmp_path / "exp").glob("*.pth")]


def test_statistics_of_another_front_end_are_refused_before_anything_is_written(tiny_run, tmp_path, capfd):
    for change in ("frontend_conf.n_mels=30", "frontend_conf.hop_length=80"):
        assert train(tiny_run, tmp_path / "exp", change) == 1
        said = capfd.readouterr().err.splitlines()[-1]
        assert f"{tiny_run.stats_dir}: has statistics of other features: {change.partition('=')[0]}: " in said
    assert not list((tmp_path / "exp").iterdir())


def test_a_file_is_no_directory_of_a_run(tiny_run, tmp_path, capfd):
    (tmp_path / "exp").write_text("mine")
    assert train(tiny_run, tmp_path / "exp") == 1
    assert "exp: is a file, but a directory is to be written here; choose another path\n" in capfd.readouterr().err
