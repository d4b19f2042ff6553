"""Every command with a Whisper model: what it writes, and in one line what it cannot do."""

import contextlib
import json
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile
from references.arpa import stand_in, write_arpa
from references.markdown import captured, run
from references.whisper import write_whisper
from starlette.testclient import TestClient

from espnet_diverse import Recognizer
from espnet_diverse.bin.main import main
from espnet_diverse.demo.routes import BODY
from espnet_diverse.serve import models
from espnet_diverse.serve.application import Server
from espnet_diverse.transcription import recordings
from espnet_diverse.transcription.transcript import Request

RATE = 16_000
SHORT = "--maxlenratio -6 --beam_size 2"
DECODE = f"decode whisper --data_dir data --output_dir out {SHORT}"
TIMED = f"transcribe whisper talk.wav --vad whisper --language de {SHORT}"
OF_CTC = f"transcribe ctc talk.wav --language de {SHORT}"
TRANSCRIBE = f"transcribe whisper talk.wav --vad none {SHORT}"


class Cell(NamedTuple):
    """A command, its exit code, a part of what it says, and files that it writes."""

    line: str
    said: str = ""
    code: int = 0
    files: tuple[str, ...] = ()


def tones(seconds, pitch=300):
    time = np.arange(round(seconds * RATE)) / RATE
    return 0.3 * np.sin(2 * np.pi * pitch * time) + 0.01 * np.random.default_rng(pitch).standard_normal(len(time))


def write_data(folder, seconds):
    """A data directory with a recording of each length, its text and its language."""
    folder.mkdir(parents=True)
    tables = {"wav.scp": "", "text": "", "utt2spk": "", "spk2utt": "", "utt2lang": ""}
    for index, length in enumerate(seconds):
        soundfile.write(folder / f"u{index}.wav", tones(length, 300 * (index + 1)), RATE)
        row = (folder / f"u{index}.wav", "hello gut tag", f"u{index}", f"u{index}", ("de", "en", "zh")[index % 3])
        for table, value in zip(tables, row, strict=True):
            tables[table] += f"u{index} {value}\n"
    for table, content in tables.items():
        (folder / table).write_text(content)


def called(words, folder):
    """Exit code of a command in a folder, and what it writes to standard output and standard error."""
    with contextlib.chdir(folder), captured() as (shown, said):
        code = main(words)
    return code, shown.getvalue(), said.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Whisper model, data and recordings, and what decode, adopt and pack make of them."""
    root = tmp_path_factory.mktemp("whisper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPNET_DIVERSE_CACHE", str(root / "cache"))
        write_whisper(root / "whisper")
        write_data(root / "data", (1, 0.7, 1.2))
        write_data(root / "bad", (1, 31, 0.01, 0))
        (root / "talks").mkdir()
        soundfile.write(root / "talk.wav", tones(1.5), RATE)
        soundfile.write(root / "talks" / "long.wav", tones(31), RATE)
        soundfile.write(root / "click.wav", tones(0.01), RATE)
        soundfile.write(root / "call.wav", np.stack([tones(1), tones(1, 500)], 1), RATE)
        (root / "names.txt").write_text("gut Tag\nhello\n")
        write_arpa(root / "lm.arpa", ["Ġhello", "a", "b"])
        for line in (
            f"{DECODE.replace(' out ', ' decoded ')} --nbest 2",
            "adopt whisper --output_dir run",
            "pack whisper --output whisper.zip",
            "adopt whisper --set model_conf.ctc_weight=0.3 --output_dir ctc",
        ):
            code, _, said = called(shlex.split(line), root)
            assert code == 0, said
        yield root


CELLS = [
    Cell(f"{TRANSCRIBE} --language de"),
    Cell(TRANSCRIBE, "talk.wav: identified language"),
    Cell(f"{TRANSCRIBE} --language de --target_language en"),
    Cell(f"{TRANSCRIBE} --target_language en", "identified language"),
    Cell(f"{TRANSCRIBE} --language de --precision int8"),
    Cell(f"{TRANSCRIBE} --language de --device cpu --kernels onednn"),
    Cell(f"{TRANSCRIBE} --language de --search sampling --nbest 3"),
    Cell(f"{TRANSCRIBE} --language de --hotwords names.txt"),
    Cell(
        f"{TRANSCRIBE} talks --language de --output_format all --output_dir out",
        files=("talk.srt", "talk.json", "talk.tsv", "talk.vtt", "talk.trn", "long.txt"),
    ),
    Cell(
        f"{TIMED} talks --output_format all --output_dir out",
        files=("talk.srt", "talk.json", "talk.tsv", "long.vtt"),
    ),
    Cell(f"{TIMED} --search sampling --nbest 2"),
    Cell(f"{TIMED} --hotwords names.txt --precision int8"),
    Cell(f"transcribe whisper call.wav --vad none --channels each --language de {SHORT}", "call.wav channel 1\t"),
    Cell(f"transcribe whisper click.wav --vad none {SHORT}", "too short for the model, no text"),
    Cell(f"transcribe whisper.zip talk.wav --vad none --language de {SHORT}"),
    Cell(f"transcribe run talk.wav --vad none --language de {SHORT}"),
    Cell(DECODE, files=("text", "score", "decode.json")),
    Cell(f"{DECODE} --search espnet", files=("text",)),
    Cell(f"{DECODE} --nbest 2 --beam_size 3", files=("nbest.jsonl",)),
    Cell(f"{DECODE} --target_language en", files=("text",)),
    Cell(f"{DECODE} --hotwords names.txt --hotword_weight 4", files=("text",)),
    Cell(f"{DECODE} --lm lm.arpa --lm_weight 0.3", files=("text",)),
    Cell(f"{DECODE} --precision int8 --language de", files=("text",)),
    Cell(f"{DECODE.replace('data ', 'bad ', 1)}", "31.0 s are more than the 30 s that Whisper reads", 2, ("text",)),
    Cell("score --reference data/text --hypothesis decoded/text --normalise whisper --metric wer --output_dir out"),
    Cell("rescore whisper --decode_dir decoded --data_dir data --output_dir out", files=("text",)),
    Cell("figure whisper --data_dir data --output_dir out", files=("u0.encoder.png", "u0.decoder.png")),
    Cell("analyse whisper --data_dir data --utterances 1 --output_dir out", files=("analysis.html",)),
    Cell("adopt whisper --output_dir out", "difference of the outputs: 0\n", files=("train.yaml", "tokenizer.json")),
    Cell("adopt whisper --config attention/sdma --output_dir out", "difference of the outputs: 0\n"),
    Cell("adopt whisper --set frontend_conf.pad=full --output_dir out", "does not begin as the trained one"),
    Cell("export safetensors whisper --output out.safetensors"),
    Cell("align whisper talk.wav --text 'hello gut' --language de", '"word": "hello"'),
    Cell(f"{TRANSCRIBE} --language de --word_timestamps --output_dir out --output_format json", files=("talk.json",)),
    Cell("export onnx ctc --output out.onnx"),
    Cell("figure ctc --data_dir data --output_dir out", files=("u0.encoder.png", "u0.decoder.png")),
    Cell("analyse ctc --data_dir data --utterances 1 --output_dir out --ctc_support", files=("analysis.html",)),
    Cell("align ctc talk.wav --text hello --language de --output_format json", "probability"),
    Cell(f"{OF_CTC} --vad none --word_timestamps --output_format json", "probability"),
    Cell(f"{OF_CTC} --vad none --search greedy"),
    Cell(f"{OF_CTC} --no_segmentation", "needs a recording at once", 1),
    Cell(f"{OF_CTC} --vad whisper"),
    Cell(f"{OF_CTC} --vad whisper --ctc_weight 0.3", "vad whisper is not possible with CTC, which knows no times", 1),
    Cell("validate data", "no faults"),
    Cell("pack whisper --language de --output out.zip", "cannot be pruned", 1),
    Cell(f"{TIMED} --lm lm.arpa", "vad whisper is not possible with a language model", 1),
    Cell("prune whisper --language de --output_dir out", "cannot be pruned", 1),
    Cell("export onnx whisper --output out.onnx", "without CTC over its text cannot be exported", 1),
    Cell("analyse whisper --data_dir data --output_dir out --ctc_support", "has no CTC over its output text", 1),
    Cell("perplexity whisper --data_dir data --output_dir out", "not a language model", 1),
    Cell("translate whisper --text hello", "reads speech, not text", 1),
    Cell("classify whisper --data_dir data --output_dir out", "has no classes", 1),
    Cell("transcribe whisper talk.wav --stream --vad whisper", "vad whisper is not possible while streaming", 1),
    Cell(f"{TRANSCRIBE} --stream", "does not stream", 1),
    Cell(f"{TIMED} --word_timestamps --output_format json", "word_timestamps is not possible with vad whisper", 1),
    Cell(f"{TIMED} --no_segmentation", "vad whisper cannot be combined with whole", 1),
    Cell(f"{TRANSCRIBE} --search greedy", "trained without CTC; set search=batched", 1),
    Cell(f"{TRANSCRIBE} --device cuda:99", "device 'cuda:99' is not possible", 1),
    Cell(f"{TRANSCRIBE} --language de --target_language zh", "does not translate de into zh, only into en", 1),
    Cell(f"{TRANSCRIBE} --language xx", "--language xx: unknown language; this model knows: en zh de", 1),
    Cell(f"{TRANSCRIBE.replace('--vad none', '--no_segmentation')}", "which the model lacks; leave it out", 1),
    Cell("transcribe data talk.wav", "give one, a packed model, or a Whisper model", 1),
]


@pytest.fixture(autouse=True)
def surroundings(folder, monkeypatch):
    """The cache of this file, and `kenlm` without a compiler."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(folder / "cache"))
    for module in ("espnet2.legacy.nets.scorers.ngram", "espnet_diverse.upstream.ngram"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "kenlm", stand_in())


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.line.replace(SHORT, "").replace("/", "_"))
def test_commands(cell, folder, tmp_path):
    words = [str(tmp_path / word) if word.partition(".")[0] == "out" else word for word in shlex.split(cell.line)]
    code, shown, said = called(words, folder)
    assert code == cell.code and cell.said in shown + said, said
    assert "Traceback" not in said
    lacking = [name for name in cell.files if not (tmp_path / "out" / name).is_file()]
    assert not lacking, sorted(path.name for path in (tmp_path / "out").iterdir())
    if cell.code == 1:
        (line,) = [line for line in said.splitlines() if "error: " in line]
        assert line.startswith(f"espnet-diverse {cell.line.split()[0]}: error: ")


def test_a_process_transcribes_a_long_talk_in_segments_that_the_model_reads(folder):
    line = f"{TRANSCRIBE.replace('talk.wav', 'talks/long.wav')} --language de --output_format json"
    done = run([sys.executable, "-m", "espnet_diverse", *shlex.split(line)], folder)
    segments = json.loads(done.stdout)["segments"]
    assert done.returncode == 0 and len(segments) > 1
    assert all(segment["end"] - segment["start"] <= 30 for segment in segments)


def test_python_identifies_the_language(folder):
    options = {"maxlenratio": -6, "beam_size": 2}
    recognizer = Recognizer(folder / "whisper", segmentation={"vad": "none", "max_seconds": 100}, options=options)
    one = recognizer.transcribe(folder / "talk.wav")
    assert sum(one.language_probabilities.values()) == pytest.approx(1)
    both = list(recognizer.transcribe_all([folder / "talk.wav", folder / "talks" / "long.wav"]))
    assert both[0].text == one.text and len(both[1].segments) == 2
    english = recognizer.transcribe(folder / "talk.wav", target_language="en")
    assert english.conditions["lang"] == one.conditions["lang"] and english.conditions["tgtlang"] == "en"


def test_segments_have_the_times_that_the_model_writes(folder, monkeypatch):
    passed, parts_between = [], recordings.parts_between

    def parts(*given):
        found = parts_between(*given)
        passed.append(found[1])
        return found

    monkeypatch.setattr(recordings, "parts_between", parts)
    options = {"maxlenratio": -8, "beam_size": 2, "batch_size": 3}
    recognizer = Recognizer(folder / "whisper", segmentation={"vad": "whisper"}, options=options)
    files = [folder / "talk.wav", folder / "talks" / "long.wav", folder / "click.wav", folder / "data" / "u1.wav"]
    together = list(recognizer.transcribe_all([Request(file, conditions={"lang": "de"}) for file in files]))
    count = len(passed)
    assert [len(each.segments) > 1 for each in together] == [True, True, False, True]
    for file, transcript in zip(files, together, strict=True):
        passed.clear()
        alone = recognizer.transcribe(file, language="de")
        assert [(each.start, each.end, each.text) for each in alone.segments] == [
            (each.start, each.end, each.text) for each in transcript.segments
        ]
        count -= len(passed)
        assert not passed or sum(passed) == pytest.approx(transcript.duration, abs=0.1)
        times = [time for each in transcript.segments for time in (each.start, each.end)]
        assert times == sorted(times) and all(0 <= time <= transcript.duration for time in times)
        one_by_one = list(recognizer.segments(file, language="de"))
        assert [each.text for each in one_by_one] == [each.text for each in transcript.segments]
    assert count == 0
    (identified,) = recognizer.transcribe_all([files[0]])
    assert sum(identified.language_probabilities.values()) == pytest.approx(1)


def served(command, monkeypatch, asked, vad="none"):
    """Run a command that serves, and call `asked` with a client of its application."""

    def run(self, app):
        with TestClient(app) as client:
            asked(client)

    monkeypatch.setattr(Server, "run", run)
    assert main([*command, "--port", "0", "--vad", vad]) == 0


@pytest.mark.parametrize("vad", ["none", "whisper"])
def test_serve_transcribes_and_translates(folder, monkeypatch, vad):
    loaded, answers, load_model = [], {}, models.load_model

    def load(*args, **how):
        loaded.append(load_model(*args, **how))
        loaded[-1].options = loaded[-1].options.__class__(maxlenratio=-6, beam_size=2)
        return loaded[-1]

    def asked(client):
        audio = {"files": {"file": (folder / "talk.wav").read_bytes()}}
        for name in ("transcriptions", "translations"):
            form = {"model": "whisper-1", "response_format": "verbose_json"}
            answers[name] = client.post(f"/v1/audio/{name}", data=form, **audio).json()

    monkeypatch.setattr(models, "load_model", load)
    served(["serve", "--model", f"base={folder / 'whisper'}"], monkeypatch, asked, vad)
    loaded[0].batches.close()  # or its thread would be there when later tests fork
    assert answers["transcriptions"]["language"] in ("en", "zh", "de")
    assert (len(answers["transcriptions"]["segments"]) > 1) == (vad == "whisper")
    assert (answers["translations"]["task"], answers["translations"]["language"]) == ("translate", "en")


def test_the_page_translates_and_shows_the_prompt(folder, monkeypatch):
    def asked(client):
        found = {each["argument"]: each for each in client.get("/about").json()["conditions"]}
        assert (found["language"]["free"], found["target_language"]["free"]) == ("identify it", "as spoken")
        choices = "beam_size=1&nbest=1&language=de&target_language=en"
        sent = {"content": (folder / "talk.wav").read_bytes(), "headers": {"Content-Type": BODY}}
        result = client.post(f"/run?{choices}", **sent).json()
        sent["content"] = b""
        heads = client.post(f"/heads?result={result['id']}&attention=decoder", **sent).json()["plots"][0]
        assert heads["rows"]["labels"][:3] == ["<|de|>", "<|translate|>", "<|notimestamps|>"]
        assert heads["rows"]["count"] == len(heads["rows"]["labels"])

    served(["demo", str(folder / "whisper")], monkeypatch, asked)


@pytest.mark.recipes
def test_every_command_reads_an_epoch_file_without_the_frozen_part(folder, tmp_path):
    """Of a model with an adapter, and of one whose layer of CTC alone is trained."""
    for name in ("train", "dev"):
        write_data(tmp_path / "sets" / name, (1, 0.7, 0.8))
    short = "--set max_epoch=1 --set frontend_conf.pad=0.5 --set optim_conf.lr=0.1 --set scheduler_conf.warmup_steps=1"
    for name, how in (
        ("lora", "--config adapter/lora"),
        ("ctc", "--set model_conf.ctc_weight=0.3 --set freeze_param=[encoder,decoder]"),
    ):
        exp, decode = tmp_path / name, f"--data_dir data --search batched {SHORT}"
        lines = [
            f"fine-tune whisper {tmp_path / 'sets'} {short} {how} --output_dir {exp}",
            f"pack {exp} --model_file 1epoch.pth --output {exp}.zip",
            f"export safetensors {exp} --model_file 1epoch.pth --output {exp}.safetensors",
            f"adopt {exp} --model_file 1epoch.pth --output_dir {exp}_adopted",
            f"decode {exp} --model_file 1epoch.pth {decode} --output_dir {exp}_epoch",
            f"decode {exp} {decode} --output_dir {exp}_average",
            f"decode {exp}.zip {decode} --output_dir {exp}_packed",
            f"fine-tune {exp} {tmp_path / 'sets'} --model_file 1epoch.pth {short} {how} --output_dir {exp}_more",
        ]
        for line in lines:
            code, _, said = called(shlex.split(line), folder)
            assert code == 0, f"{line}\n{said}"
        whole, epoch = ((tmp_path / f"{name}_{made}" / "score").read_text() for made in ("average", "epoch"))
        assert whole == epoch and len(list(exp.glob("frozen.*.pth"))) == 1
        assert (exp / "1epoch.pth").stat().st_size < 0.8 * (exp / "valid.acc.ave.pth").stat().st_size
        assert all(Path(f"{exp}_packed", table).read_text() for table in ("text", "score"))
