"""No command writes over what it reads, by whatever name, or over data directories of others."""

import re
from pathlib import Path

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import DataDir, write_data_dir

MODEL = ["exp", "--model_file", "model.safetensors"]
DATA = ["--data_dir", "data/train"]
TRAINING = ["--config", "model/tiny", "--train_dir", "data/train", "--valid_dir", "data/dev", "--tokens_dir", "texts"]

# The arguments that name inputs; what is read; and those that name the output, OUT, which is what is read.
COMMANDS = {
    "prepare": (["kaldi", "data/train", "--sets", "train"], "data", ["--output_dir", "OUT"]),
    "prepare table": (["table", "texts/train/t.csv"], "texts", ["--output_dir", "OUT"]),
    "validate": (["data/train"], "data/train", ["--fix", "OUT"]),
    "validate --figures": (["data/train"], "data/train", ["--figures", "OUT"]),
    "combine": (["data/train", "data/dev"], "data/dev", ["--output_dir", "OUT"]),
    "augment": (["back", *MODEL, *DATA], "data/train", ["--output_dir", "OUT"]),
    "tokens": (["--text", "texts/tokens.txt"], "texts", ["--output_dir", "OUT"]),
    "shortlist": (["--data_dir", "data/train", "--tokens_dir", "texts"], "data/train", ["--output", "OUT/text"]),
    "stats": (TRAINING, "data/train", ["--output_dir", "OUT"]),
    "stats over all data": (TRAINING, "data", ["--output_dir", "OUT"]),
    "train": ([*TRAINING, "--stats_dir", "data"], "data/train", ["--output_dir", "OUT"]),
    "prune": ([*MODEL, "--language", "de"], "exp", ["--output_dir", "OUT"]),
    "adopt": (MODEL, "exp", ["--output_dir", "OUT"]),
    "pack": (MODEL, "exp", ["--output", "OUT/model.safetensors"]),
    "export": (["safetensors", *MODEL], "exp", ["--output", "OUT/model.safetensors"]),
    "export lhotse": (["lhotse", "data/train"], "data/train", ["--output", "OUT"]),
    "decode": ([*MODEL, *DATA], "data/train", ["--output_dir", "OUT"]),
    "rescore": ([*MODEL, "--decode_dir", "decoded"], "decoded", ["--output_dir", "OUT"]),
    "rescore into data": ([*MODEL, *DATA, "--decode_dir", "decoded"], "data/train", ["--output_dir", "OUT"]),
    "score": (["--reference", "data/train/text", "--hypothesis", "texts/score.md"], "texts", ["--output_dir", "OUT"]),
    "score --results": (
        ["--reference", "data/train/text", "--hypothesis", "decoded/text", "--output_dir", "new"],
        "data/train",
        ["--results", "OUT/text"],
    ),
    "transcribe": ([*MODEL, "texts/a.json", "--output_format", "all"], "texts", ["--output_dir", "OUT"]),
    "transcribe --list": ([*MODEL, "--list", "texts/failures.json"], "texts", ["--output_dir", "OUT"]),
    "translate": ([*MODEL, "texts/a.txt"], "texts", ["--output_dir", "OUT"]),
    "translate failures": ([*MODEL, "texts/failures.json"], "texts", ["--output_dir", "OUT"]),
    "classify": ([*MODEL, *DATA], "data/train", ["--output_dir", "OUT"]),
    "perplexity": ([*MODEL, *DATA], "data/train", ["--output_dir", "OUT"]),
    "classify --results": ([*MODEL, *DATA, "--output_dir", "new"], "data/train", ["--results", "OUT/text"]),
    "perplexity --results": ([*MODEL, *DATA, "--output_dir", "new"], "data/train", ["--results", "OUT/text"]),
    "figure": ([*MODEL, *DATA], "data/train", ["--output_dir", "OUT"]),
    "analyse": ([*MODEL, *DATA], "data/train", ["--output_dir", "OUT"]),
}


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, write_wav):
    """The current folder, with data, an untrained model, hypotheses and texts."""
    monkeypatch.chdir(tmp_path)
    for name in ("train", "dev", "other"):
        wav = str(write_wav(tmp_path / "audio" / f"{name}.wav"))
        write_data_dir(DataDir({name: wav}, {name: f"words of {name}"}, {name: f"speaker-{name}"}), Path("data", name))
    write_data_dir(DataDir(text={"a": "text alone"}), Path("data/text"))
    contents = {
        **{f"exp/{name}": "" for name in ("config.yaml", "model.safetensors")},
        **{f"decoded/{name}": "train words\n" for name in ("text", "score")},
        "decoded/nbest.jsonl": '{"utterance": "train", "hypotheses": [{"text": "words", "score": -1}]}\n',
        "texts/train/t.csv": f"audio,text\n{wav},words\n",
        **{f"texts/{name}": "train words\n" for name in ("a.txt", "a.json", "failures.json", "score.md", "tokens.txt")},
        "texts/tokens.yaml": "type: char\n",
    }
    for name, content in contents.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)
    return tmp_path


def refused(capfd, *argv: str) -> str:
    """The error of a command, which stops with one line and leaves every file as it is."""
    before = tree(Path())
    assert main([*argv]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert tree(Path()) == before
    return line.removeprefix(f"espnet-diverse {argv[0]}: error: ")


@pytest.mark.parametrize("by", ["name", "link", "parent"])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_output_is_not_the_input(here, capfd, command, by):
    given, read, output = COMMANDS[command]
    names = {"name": read, "link": "link", "parent": f"exp/../{read}"}
    (here / "link").symlink_to(here / read)
    argv = [command.split()[0], *given, *(word.replace("OUT", names[by]) for word in output)]
    what = "(is the (file|directory) to read, .*|contains .*, which is read)"
    found = refused(capfd, *argv)
    assert re.fullmatch(f"{names[by]}[/a-z.]*: {what}; choose another path", found), found


@pytest.mark.parametrize("command", ["decode", "rescore"])
@pytest.mark.parametrize(("name", "table"), [("other", "wav.scp"), ("text", "text")])
def test_hypotheses_are_not_written_into_data(capfd, command, name, table):
    given = [*MODEL, *(DATA if command == "decode" else ["--decode_dir", "decoded"])]
    what = f"data/{name}: has {table}, so it is a data directory, whose text would be lost; choose another path"
    assert refused(capfd, command, *given, "--output_dir", f"data/{name}") == what


@pytest.mark.parametrize(
    "argv",
    [
        ["combine", "data/train", "data/dev", "--output_dir", "data/other"],
        ["validate", "data/train", "--fix", "data/other"],
        ["augment", "back", *MODEL, *DATA, "--output_dir", "data/other", "--device", "cpu"],
    ],
)
def test_data_of_others_are_not_replaced(capfd, argv):
    assert "data/other: exists, and nothing shows that espnet-diverse has written it" in refused(capfd, *argv)


@pytest.mark.parametrize("folder", ["exp", "data"])
def test_statistics_replace_statistics_alone(capfd, folder):
    given = [*TRAINING[:2], "--train_dir", "texts/train", "--valid_dir", "texts/train", "--tokens_dir", "texts"]
    what = rf"{folder}: has \S+, which `stats` has not written; move it away or choose another path"
    assert re.fullmatch(what, refused(capfd, "stats", *given, "--output_dir", folder))
