"""Files that a copy of a run needs."""

from espnet_diverse.packing.run_files import copy_files


def test_files_inside_and_outside_of_the_run(tmp_path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    (run / "src_tokens").mkdir(parents=True)
    for path in (run / "tokens.txt", run / "src_tokens" / "bpe.model", run / "bpe.model", tmp_path / "stats.npz"):
        path.write_text(path.name)
    config = {"bpemodel": str(run / "bpe.model"), "src_bpemodel": str(run / "src_tokens" / "bpe.model")}
    config["normalize_conf"] = {"stats_file": str(tmp_path / "stats.npz")}
    copy_files(config, run, copy)
    assert config == {
        "bpemodel": str(copy / "bpe.model"),
        "src_bpemodel": str(copy / "src_tokens" / "bpe.model"),
        "normalize_conf": {"stats_file": str(copy / "stats.npz")},
    }
    assert (copy / "tokens.txt").read_text() == "tokens.txt" and (copy / "stats.npz").read_text() == "stats.npz"
