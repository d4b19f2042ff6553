import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.bin.options.options import notice
from espnet_diverse.data import kaldi
from espnet_diverse.data.kaldi import read_data_dir, write_data_dir


def test_back_translated_data_combines_with_other_data(tiny_translation, tmp_path, capsys):
    run = tiny_translation
    (mono := tmp_path / "mono").mkdir()
    (mono / "text").write_text("m1 abc\nm2 ddab\n")
    (mono / "utt2lang").write_text("m1 yy\nm2 yy\n")
    paths = ["--data_dir", str(mono), "--output_dir", str(tmp_path / "bt"), "--target_language", "xx"]
    search = ["--set", "beam_size=2", "--set", "minlenratio=1", "--max_ratio", "99"]
    for _ in range(2):  # what it has written itself it replaces
        assert main(["augment", "back", str(run.model_dir), *paths, *search]) == 0
    (tmp_path / "bt" / "text").unlink()
    (tmp_path / "bt" / "feats.scp").write_text("precious\n")
    assert main(["augment", "back", str(run.model_dir), *paths, *search]) == 1
    assert "bt: has feats.scp, which espnet-diverse has not written" in capsys.readouterr().err
    (tmp_path / "bt" / "feats.scp").unlink()
    assert main(["augment", "back", str(run.model_dir), *paths, *search]) == 0
    assert f"{tmp_path / 'bt'}: 2 pairs, 0 dropped" in capsys.readouterr().out
    data = read_data_dir(tmp_path / "bt")
    assert data.text == {"bt-m1": "abc", "bt-m2": "ddab"} and set(data.src_text) == set(data.text)
    assert data.conditions == {
        "utt2lang": dict.fromkeys(data.text, "xx"),
        "utt2tgtlang": dict.fromkeys(data.text, "yy"),
    }
    parts = [f"human={run.train_dir}", f"back={tmp_path / 'bt'}"]
    assert main(["combine", *parts, "--output_dir", str(tmp_path / "all")]) == 0
    assert set(read_data_dir(tmp_path / "all").conditions["utt2domain"].values()) == {"human", "back"}


def test_given_languages_are_tables_of_the_pairs(tiny_translation, tmp_path, capsys):
    (mono := tmp_path / "mono").mkdir()
    (mono / "text").write_text("m1 abc\n")
    (mono / "utt2domain").write_text("m1 talk\n")
    options = ["--language", "yy", "--target_language", "xx", "--set", "beam_size=2", "--max_ratio", "99"]
    assert main(["augment", "forward", *named(tiny_translation, mono, tmp_path / "st"), *options]) == 0
    assert read_data_dir(tmp_path / "st").conditions == {
        **{"utt2lang": {"st-m1": "yy"}, "utt2tgtlang": {"st-m1": "xx"}, "utt2domain": {"st-m1": "talk"}}
    }
    assert "has no effect" not in capsys.readouterr().err


def named(run, data_dir, output_dir):
    return [str(run.model_dir), "--data_dir", str(data_dir), "--output_dir", str(output_dir)]


def test_after_a_kill_it_can_be_run_again(tiny_translation, tmp_path, monkeypatch):
    """One that came between the input of the model and the mark of the directory."""
    (mono := tmp_path / "mono").mkdir()
    (mono / "text").write_text("m1 abc\n")
    argv = ["augment", "back", *named(tiny_translation, mono, tmp_path / "bt"), "--set", "beam_size=2"]

    def write_and_be_killed(data, path):
        write_data_dir(data, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kaldi, "write_data_dir", write_and_be_killed)
        assert main(argv) == 130
    assert main([*argv, "--max_ratio", "99"]) == 0


def test_sampling_is_seeded_and_is_not_beam_search(tiny_translation, tmp_path, capsys):
    run = tiny_translation
    (mono := tmp_path / "mono").mkdir()
    (mono / "text").write_text("m1 abc\nm2 ddab\nm3 cabd\n")
    (mono / "utt2lang").write_text("m1 yy\nm2 yy\nm3 yy\n")

    def sources(name, *options):
        limits = ["--set", "minlenratio=1", "--max_ratio", "99"]
        assert main(["augment", "back", *named(run, mono, tmp_path / name), *limits, *options]) == 0
        return read_data_dir(tmp_path / name).src_text

    sampling = ["--search", "sampling", "--temperature", "0.9", "--top_k", "5"]
    notice.cache_clear()  # another test may have had it
    first = sources("a", *sampling, "--seed", "3")
    assert not (tmp_path / "a" / "utt2lang").exists()
    said = "espnet-diverse: translations without --target_language: their language is not known"
    assert said in capsys.readouterr().err
    assert sources("b", *sampling, "--seed", "3", "--nj", "2", "--set", "batch_size=1") == first
    assert sources("c", *sampling, "--seed", "4") != first != sources("d")
    assert main(["augment", "back", *named(run, mono, tmp_path / "e"), "--top_k", "5"]) == 1
    assert "--top_k 5: top_k is for --search sampling; add that, or leave it out" in capsys.readouterr().err


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(
    ("ratio", "message"),
    [("0.5", "be at least 1, but is 0.5"), ("-1", "be at least 1, but is -1.0"), ("nan", "be a number, but is nan")],
)
def test_a_ratio_that_no_pair_has_is_refused_before_anything_is_written(ratio, message, tmp_path, capsys):
    paths = ["--data_dir", str(tmp_path), "--output_dir", str(tmp_path / "bt")]
    assert main(["augment", "back", str(tmp_path), *paths, "--max_ratio", ratio]) == 1
    assert capsys.readouterr().err == f"espnet-diverse augment: error: --max_ratio must {message}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("unchecked_paths")
def test_a_wrong_device_is_refused_before_anything_is_written(tmp_path, capsys):
    (mono := tmp_path / "mono").mkdir()
    (mono / "text").write_text("m1 abc\n")
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "config.yaml").touch()
    paths = ["--data_dir", str(mono), "--output_dir", str(tmp_path / "bt")]
    assert main(["augment", "back", str(tmp_path / "exp"), *paths, "--device", "cuda:99"]) == 1
    assert "device 'cuda:99' is not possible on this machine" in capsys.readouterr().err
    assert not (tmp_path / "bt").exists()
