"""Packed models: ESPnet's format both ways, and untrusted archives."""

import io
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
import yaml
from espnet2.bin.asr_inference import Speech2Text
from espnet2.bin.pack import main as espnets_pack
from espnet2.main_funcs.pack_funcs import unpack as espnets_unpack
from references.whisper import write_whisper

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.bin.main import main
from espnet_diverse.errors import ModelError
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import pack
from espnet_diverse.runs.packed.archive import _LAYOUT, _appearing, title_of, unpacked
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.text.vocabulary import Vocabulary

SEARCH = ["--set", "beam_size=3", "--set", "ctc_weight=0.4"]
BLANK, UNKNOWN, SENTENCE = "<blank>", "<unk>", "<sos/eos>"


def decoded(model, data_dir, output_dir):
    """Texts and scores that the command gives."""
    arguments = [str(model), "--data_dir", str(data_dir), "--output_dir", str(output_dir), *SEARCH]
    assert main(["decode", *arguments]) == 0
    return [(output_dir / name).read_text() for name in ("text", "score")]


def espnets(run, folder):
    """ESPnet's archive of a run, made in `folder` as its recipes do: paths relative to where they were started."""
    (folder / "exp").mkdir()
    for name in ("config.yaml", "valid.acc.ave.pth", "feats_stats.npz"):
        shutil.copy(run.model_dir / name, folder / "exp" / name)
    path = folder / "exp" / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["normalize_conf"]["stats_file"] = "exp/feats_stats.npz"
    del config["task"]
    path.write_text(yaml.safe_dump(config))
    files = ["--asr_train_config", "exp/config.yaml", "--asr_model_file", "exp/valid.acc.ave.pth"]
    espnets_pack(["asr", *files, "--option", "exp/feats_stats.npz", "--outpath", "theirs.zip"])
    return folder / "theirs.zip"


def test_a_packed_model_decodes_as_its_run(tiny_run, packed, tmp_path):
    expected = decoded(tiny_run.model_dir, tiny_run.test_dir, tmp_path / "run")
    assert decoded(packed, tiny_run.test_dir, tmp_path / "packed") == expected


def test_espnet_opens_a_packed_model(tiny_run, packed, tmp_path):
    expected = decoded(tiny_run.model_dir, tiny_run.test_dir, tmp_path / "run")[0]
    named = espnets_unpack(packed, tmp_path / "espnet")
    theirs = Speech2Text(**named, lm_weight=0.0, beam_size=3, ctc_weight=0.4)
    lines = (tiny_run.test_dir / "wav.scp").read_text().splitlines()
    texts = {name: theirs(read_audio(Path(path))[0])[0][0] for name, _, path in (line.partition(" ") for line in lines)}
    assert "".join(f"{name} {text}".rstrip() + "\n" for name, text in texts.items()) == expected


def test_an_archive_of_espnet_is_opened(tiny_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    theirs = espnets(tiny_run, tmp_path)
    shutil.rmtree(tmp_path / "exp")
    expected = decoded(tiny_run.model_dir, tiny_run.test_dir, tmp_path / "run")
    assert decoded(theirs, tiny_run.test_dir, tmp_path / "theirs") == expected
    assert Vocabulary.load(unpacked(theirs)).tokens == (BLANK, UNKNOWN, *"abcd", SENTENCE)


def test_both_vocabularies_of_a_translation_are_packed(tiny_translation, tmp_path):
    run = tiny_translation
    archive = pack(run.model_dir, tmp_path / "model.zip", Facts(), weights="safetensors")
    assert Vocabulary.load(unpacked(archive) / "src_tokens").tokens == (BLANK, UNKNOWN, *"abcd", SENTENCE)
    expected = decoded_text(run.model_dir, run.test_dir, tmp_path / "run")
    assert decoded_text(archive, run.test_dir, tmp_path / "packed") == expected


def decoded_text(model, data_dir, output_dir):
    arguments = [str(model), "--data_dir", str(data_dir), "--output_dir", str(output_dir)]
    assert main(["decode", *arguments, "--set", "beam_size=2"]) == 0
    return (output_dir / "text").read_text()


def test_it_is_unpacked_once_and_a_directory_is_itself(packed, cache, tmp_path):
    model_dir = unpacked(packed)
    kept = (model_dir / "config.yaml").stat().st_mtime_ns
    moved = shutil.copy(packed, tmp_path / "other.zip")
    assert unpacked(moved) == model_dir and (model_dir / "config.yaml").stat().st_mtime_ns == kept
    assert [path.name for path in model_dir.parent.iterdir()] == [model_dir.name]
    assert unpacked(model_dir) == model_dir


def test_what_a_killed_process_left_beside_its_directory_is_removed(packed, cache):
    left = unpacked(packed).with_name(".unpacking.partial.0")
    (left / "work").mkdir(parents=True)
    unpacked(packed)
    assert not left.exists()


def test_paths_without_a_model_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"gone: no such model; .* a packed model, or hf:owner/name"):
        unpacked(tmp_path / "gone")
    with pytest.raises(
        ModelError, match=r"is not the directory of a run, because it has no config\.yaml; give one, a packed model"
    ):
        unpacked(tmp_path)
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(ModelError, match=r"a\.wav: is not a packed model, which is a zip file, or is incomplete; give"):
        unpacked(tmp_path / "a.wav")


def test_the_first_of_two_processes_wins(tmp_path):
    target = tmp_path / "cache" / "model"
    with _appearing(target) as (_, late), _appearing(target) as (_, early):
        (early / "by").write_text("early")
        (late / "by").write_text("late")
    assert (target / "by").read_text() == "early" and list(target.parent.iterdir()) == [target]


CONFIG = {"token_type": "char", "token_list": [BLANK, UNKNOWN, "a", SENTENCE], "encoder": "transformer"}
META = {"yaml_files": {"asr_train_config": "exp/config.yaml"}, "files": {"asr_model_file": "exp/model.pth"}}


def archive_of(path, meta=META, config=CONFIG, **members):
    """An archive as ESPnet would make it, with contents and names as they come."""
    contents = {"meta.yaml": meta, "exp/config.yaml": config, "exp/model.pth": "weights", **members}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content if isinstance(content, (str, bytes)) else yaml.safe_dump(content))
    return path


def test_a_file_has_its_usual_name_whatever_that_in_the_archive_is(tmp_path):
    vocabulary = Vocabulary.train(["the cat sat on the mat"], "bpe", 20)
    config = CONFIG | {"token_type": "bpe", "token_list": list(vocabulary.tokens), "bpemodel": "x/valid.acc.ave.pth"}
    config |= {"src_bpemodel": "x/tokens.yaml", "normalize_conf": {"stats_file": "x/config.yaml"}}
    members = {"x/valid.acc.ave.pth": vocabulary.model, "x/tokens.yaml": vocabulary.model, "x/config.yaml": b"stats"}
    model_dir = unpacked(archive_of(tmp_path / "model.zip", config=config, **members))
    found = yaml.safe_load((model_dir / "config.yaml").read_text())
    named = [found["bpemodel"], found["src_bpemodel"], found["normalize_conf"]["stats_file"]]
    assert named == ["bpe.model", "src_tokens/bpe.model", "feats_stats.npz"]
    assert (model_dir / "feats_stats.npz").read_bytes() == b"stats"
    assert (model_dir / "valid.acc.ave.pth").read_text() == "weights"


def test_pieces_of_espnets_archive_make_a_vocabulary(tmp_path):
    vocabulary = Vocabulary.train(["the cat sat on the mat"], "bpe", 20)
    config = CONFIG | {"token_type": "bpe", "token_list": list(vocabulary.tokens), "bpemodel": "/data/en/bpe.model"}
    members = {"data/en/bpe.model": vocabulary.model, "README.md": "# Cat"}
    model_dir = unpacked(archive_of(tmp_path / "model.zip", config=config, **members))
    assert Vocabulary.load(model_dir).encode("cat") == vocabulary.encode("cat")
    assert yaml.safe_load((model_dir / "config.yaml").read_text())["bpemodel"] == "bpe.model"
    assert (model_dir / "README.md").read_text() == "# Cat"


def test_paths_of_the_machine_that_trained_are_left_out(tmp_path):
    config = CONFIG | {"non_linguistic_symbols": "/dev/zero", "init_param": ["/dev/zero"], "train_shape_file": ["/x"]}
    config = yaml.safe_load((unpacked(archive_of(tmp_path / "model.zip", config=config)) / "config.yaml").read_text())
    assert (config["non_linguistic_symbols"], config["init_param"], config["train_shape_file"]) == (None, [], [])
    assert config.keys() == {*CONFIG, "task", "non_linguistic_symbols", "init_param", "train_shape_file"}


NGRAM = {**META, "files": META["files"] | {"ngram_file": "exp/4gram.bin"}}


def test_an_ngram_model_of_espnets_archive_is_beside_the_model(tmp_path, caplog):
    model = archive_of(tmp_path / "model.zip", meta=NGRAM, **{"exp/4gram.bin": "n-grams"})
    assert (unpacked(model) / "language_model" / "ngram.bin").read_text() == "n-grams" and not caplog.records
    lacking = archive_of(tmp_path / "lacking.zip", meta=NGRAM)
    with pytest.raises(ModelError, match=r"lacking\.zip: ngram_file is exp/4gram\.bin, which is not in the archive"):
        unpacked(lacking)


@pytest.mark.parametrize("beside", ["language model", "transducer"])
def test_an_ngram_model_that_is_not_used_is_mentioned_each_time(tmp_path, caplog, beside):
    config = CONFIG | {"decoder": "transducer"} if beside == "transducer" else CONFIG
    meta, members = (OF_LM, LM_MEMBERS) if beside == "language model" else (META, {})
    meta = {**meta, "files": meta["files"] | NGRAM["files"]}
    model = archive_of(tmp_path / "model.zip", meta=meta, config=config, **members, **{"exp/4gram.bin": "n-grams"})
    for _ in range(2):
        caplog.clear()
        unpacked(model)
        said = f"{model}: its n-gram model is not used; scores and texts are as without it"
        assert [record.getMessage() for record in caplog.records] == [said]
    caplog.clear()
    unpacked(archive_of(tmp_path / "other.zip"))
    assert not caplog.records


OF_LM = {
    "yaml_files": META["yaml_files"] | {"lm_train_config": "exp/lm/config.yaml"},
    "files": META["files"] | {"lm_file": "exp/lm/9epoch.pth"},
}
LM_CONFIG = {"lm": "transformer", "lm_conf": {"layer": 1}, "token_list": ["<blank>", "<unk>", "a", "<sos/eos>"]}
LM_MEMBERS = {"exp/lm/config.yaml": LM_CONFIG | {"token_type": "char"}, "exp/lm/9epoch.pth": "weights of the lm"}


def test_a_language_model_of_espnets_archive_is_beside_the_model(tmp_path, caplog):
    model_dir = unpacked(archive_of(tmp_path / "model.zip", meta=OF_LM, **LM_MEMBERS))
    folder = model_dir / "language_model"
    assert yaml.safe_load((folder / "config.yaml").read_text())["task"] == "lm"
    assert (folder / "valid.loss.ave.pth").read_text() == "weights of the lm"
    assert (model_dir / "valid.acc.ave.pth").read_text() == "weights" and not caplog.records


BOMB = "lol: &a [{}]\n" + "b: {<<: *a}\n"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"../evil": ""}, "member '../evil' points outside; the archive cannot be trusted"),
        ({"/evil": ""}, "member '/evil' points outside; the archive cannot be trusted"),
        ({"large": bytes(1 << 27)}, "bytes and 10000 members are allowed"),
        ({"meta": BOMB}, "meta.yaml is not valid YAML .*merge keys are not allowed"),
        ({"meta": {"files": {}}}, "meta.yaml is not from a packed model, which has yaml_files and files"),
        (
            {"meta": {"files": {}, "yaml_files": {"tts_train_config": "c"}}},
            "contains tts_train_config; supported tasks",
        ),
        ({"meta": META | {"files": {}}}, "asr_model_file is None, which is not in the archive"),
        ({"meta": META | {"files": {"asr_model_file": "../../m"}}}, r"asr_model_file is ../../m, which is not"),
        (
            {"config": CONFIG | {"bpemodel": "/etc/passwd"}},
            "bpemodel is /etc/passwd, which is not in the archive",
        ),
        (
            {"config": CONFIG | {"token_list": "/dev/zero"}},
            "token_list of config.yaml is /dev/zero; it must be the list",
        ),
        (
            {"config": CONFIG | {"encoder_conf": {"num_blocks": 10**9}}},
            "num_blocks of config.yaml is 1000000000; all",
        ),
        (
            {"config": CONFIG | {"frontend_conf": {"hop_length": 1}}},
            "hop_length of config.yaml is 1; allowed are 16",
        ),
        ({"config": "a: 1" + ":1" * 400_000}, "config.yaml is not valid YAML .a number of 800001 digits"),
        ({"config": "a: [" + "0, " * 900_000 + "]"}, "config.yaml is not valid YAML .more than 800000 values"),
        (
            {"config": " " * (1 << 24) + "a: 1"},
            "config.yaml has more than 16777216 bytes; check where the file is from",
        ),
        (
            {"meta": META | {"files": {"asr_model_file": "m" * 10**5}}},
            r"asr_model_file is m{197}\.\.\., which",
        ),
        ({"meta": META | {"files": {"asr_model_file": ["m"]}}}, r"asr_model_file is \['m'\], which is not in"),
        ({"config": CONFIG | {"frontend": "s3prl"}}, "frontend 's3prl' is not allowed .*; allowed: bert default embed"),
    ],
)
def test_untrusted_or_invalid_archives_are_refused(tmp_path, cache, changes, said):
    with pytest.raises(ModelError, match=said):
        unpacked(archive_of(tmp_path / "model.zip", **changes))
    assert list((cache / "models" / _LAYOUT).iterdir()) == [] and not (tmp_path / "evil").exists()


def test_links_encryption_and_other_files_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    path = archive_of(tmp_path / "link.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc")
    with pytest.raises(ModelError, match="member 'link' is a link; only files and folders are unpacked"):
        unpacked(path)
    path = archive_of(tmp_path / "secret.zip")
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        content[content.index(mark) + flags] |= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"secret\.zip: cannot be unpacked \(.*encrypted"):
        unpacked(path)
    path = tmp_path / "notes.txt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(ModelError, match=r"has no meta\.yaml, so it is not a packed model; make one"):
        unpacked(path)


def test_code_in_a_packed_model_is_not_run(tiny_run, packed, tmp_path):
    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    weights = io.BytesIO()
    torch.save({"w": Payload()}, weights)
    evil = tmp_path / "evil.zip"
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(evil, "w") as archive:
        for name in source.namelist():
            if name != "model.safetensors":
                archive.writestr(name, weights.getvalue() if name.endswith(".pth") else source.read(name))
    with pytest.raises(ModelError, match=r"valid\.acc\.ave\.pth: is not a checkpoint or holds objects that are not"):
        load_model(unpacked(evil))
    assert not (tmp_path / "ran").exists()


def test_damage_is_a_model_error_or_harmless(packed, tmp_path):
    content, random_bytes = packed.read_bytes(), random.Random(0)
    damaged, refused = tmp_path / "damaged.zip", 0
    for number in range(40):
        changed = bytearray(content)
        if number % 3:  # the directory of members is at the end
            changed[random_bytes.randrange(len(content) - 800, len(content))] ^= 1 << random_bytes.randrange(8)
        else:
            del changed[random_bytes.randrange(len(content)) :]
        damaged.write_bytes(changed)
        try:
            assert (unpacked(damaged) / "config.yaml").is_file()
        except ModelError as error:
            assert str(error).startswith(str(damaged)) and "\n" not in str(error)
            refused += 1
    assert refused >= 14  # all that are truncated


def test_a_model_takes_the_place_of_no_file(tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(NotADirectoryError), _appearing(tmp_path / "model"):
        pass
    assert (tmp_path / "model").read_text() == "mine" and list(tmp_path.iterdir()) == [tmp_path / "model"]


def test_titles_have_no_digest(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path))
    assert title_of(unpacked(packed)) == "a packed model"
    write_whisper(tmp_path / "my_whisper")
    assert title_of(unpacked(tmp_path / "my_whisper")) == "my_whisper"
    assert title_of(tmp_path / "exp" / f"run-{64 * '0'}") == f"run-{64 * '0'}"
