"""Values that a format allows and nobody writes, at every place of a file: each is refused in one line, or harmless.

`test_fuzzed_readers.py` changes bytes instead.
"""

import copy
import json
import re
import tarfile

import pytest
import soundfile
from references.streaming import RATE, tones, write_run
from runs.stored.test_checkpoint_schema import position, run_of
from untrusted.test_tar_files import member

from espnet_diverse.bin.main import main
from espnet_diverse.errors import UserError
from espnet_diverse.runs import checkpoint
from espnet_diverse.text.pretrained_tokenizer import PretrainedTokenizer, read_tokenizer
from espnet_diverse.training.checkpoints.data_record import saved_digests
from espnet_diverse.untrusted.tar_files import unpack

NAN, INF = float("nan"), float("inf")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = (None, True, -1, 0, 3, 2**31, 2**70, 0.5, NAN, INF, 1e300, "", "x" * 100_000, "a\x1b[2J\n", [], {}, ["a"])
HOSTILE += ({"a": 1}, nested(100))


def places(node, place=()):
    """The places of all values, as keys from the outermost on."""
    for key, below in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*place, key)
        if isinstance(below, dict | list | tuple):
            yield from places(below, (*place, key))


def variants(document):
    """A document with a hostile value at one place, without a key, and with one more."""
    for place in list(places(document)):
        for value in (*HOSTILE, "without", "one more"):
            changed = part = copy.deepcopy(document)
            for key in place[:-1]:
                part = part[key]
            if isinstance(part, tuple):
                continue
            if value == "without":
                del part[place[-1]]
            elif value == "one more":
                if isinstance(part, dict):
                    part["another"] = part[place[-1]]
                else:
                    part.append(part[place[-1]])
            else:
                part[place[-1]] = value
            yield place, value, changed


def refused(read, document):
    """Numbers of variants of a document, and of those that a reader refuses; the others it reads."""
    count = number = 0
    for place, value, changed in variants(document):
        count += 1
        try:
            read(changed)
        except UserError as error:
            number += 1
            assert "\n" not in str(error) and len(str(error)) < 1000, (place, str(error)[:500])
        except Exception as error:
            raise AssertionError(f"{place}: {str(value)[:50]!r}") from error
    return count, number


def test_the_state_of_a_run(tmp_path):
    (folder := tmp_path / "run").mkdir()
    run_of(folder).save_position(position())
    path = folder / checkpoint.CHECKPOINT
    sound = checkpoint.load(path)

    def read(state):
        checkpoint.save(state, path)
        run_of(folder, steps=0).restore("cpu")

    count, number = refused(read, sound)
    assert count > 800 and number > count // 2


def test_weights(tmp_path):
    path = tmp_path / "a.pth"

    def read(weights):
        checkpoint.save(weights, path)
        checkpoint.load_weights(path)

    count, number = refused(read, dict(run_of(tmp_path).model.state_dict()))
    assert count > 60 and number > count // 2


def test_data_json(tmp_path):
    def read(record):
        (tmp_path / "data.json").write_text(json.dumps(record))
        saved_digests(tmp_path)

    count, number = refused(
        read, {"train/text": "0" * 64, "train/wav.scp, audio content": "1" * 64, "run": "exp of now"}
    )
    assert count > 50 and number > 40


def test_tokenizer_json(tiny_bert):
    def read(content):
        tokenizer = PretrainedTokenizer(json.dumps(content).encode())
        tokenizer.decode(tokenizer.encode("ab c\u4f60 [MASK]"))

    count, number = refused(read, json.loads(read_tokenizer(tiny_bert)))
    assert count > 1000 and number > 500


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": ""}},
            r"normalizer.pattern.Regex",
        ),
        (
            {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 10**6}},
            "of 1000000 characters",
        ),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "none of sentencepiece's own"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "\u4f60"}}, "not in base64"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": nested(50)}}, "nested deeper than 20"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parts_of_a_tokenizer_that_the_library_cannot_bear(tiny_bert, change, said):
    content = json.loads(read_tokenizer(tiny_bert)) | change
    with pytest.raises(UserError, match=f"tokenizer.json .*{said}.*; write it again with save_pretrained"):
        PretrainedTokenizer(json.dumps(content).encode())


PAX = {
    **{f"time {text}": {"mtime": text} for text in ("nan", "inf", "-inf", "1e300", "-5", "text", "9" * 5000)},
    **{f"{key} {text}": {key: text} for key in ("size", "uid", "gid") for text in ("-1", "nan", "9" * 40, "text")},
    "sparse": {"GNU.sparse.map": "1,2,x", "GNU.sparse.size": "9" * 30},
    "sparse 1.0": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "x"},
    "name": {"path": "a\0b"},
    "long name": {"path": "a" * 5000},
    "name of another code": {"path": "\udcff"},
}


@pytest.mark.parametrize("kind", PAX)
def test_headers_of_a_tar(kind, tmp_path):
    info, content = member("a", content=b"hello")
    info.pax_headers = PAX[kind]
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        tar.addfile(info, content)
    (target := tmp_path / "target").mkdir()
    try:
        unpack(tmp_path / "a.tar", target)
    except UserError as error:
        assert "\n" not in str(error) and str(error).startswith(str(tmp_path / "a.tar"))
    assert {path.parent for path in target.rglob("*")} <= {target}


@pytest.mark.parametrize(
    "sizes", [(8, 0, 2), (8, -1, 2), (-8, 4, 2), (8, 4, -1), (8, 4, 5), (8.5, 4, 2), (10**9, 4, 2)]
)
@pytest.mark.parametrize("how", ["stream", "whole"])
def test_sizes_of_blocks(sizes, how, tmp_path, capsys):
    run = write_run(tmp_path / "run")
    soundfile.write(tone := tmp_path / "a.wav", tones(1.0, 1), RATE)
    block, hop, ahead = sizes
    config = (run / "config.yaml").read_text()
    for name, before, value in (("block_size", 8, block), ("hop_size", 4, hop), ("look_ahead", 2, ahead)):
        assert f"  {name}: {before}\n" in config
        config = config.replace(f"  {name}: {before}\n", f"  {name}: {value}\n")
    (run / "config.yaml").write_text(config)
    options = ["--stream"] if how == "stream" else ["--output_dir", str(tmp_path / "out")]
    harmless = how == "whole" and sizes == (8, 4, 5)
    assert main(["transcribe", str(run), str(tone), *options]) == (0 if harmless else 1)
    said = capsys.readouterr().err.splitlines()[-1]
    assert harmless or re.search(r"config.yaml.* is .*allowed are|no blocks; streaming needs|\"block_size\"", said)


@pytest.mark.parametrize("rate", ["0", "-1", "999", "9" * 30, "768001"])
def test_rates_of_a_stream(rate, tmp_path, capsys):
    run = write_run(tmp_path / "run")
    assert main(["transcribe", str(run), "-", "--stream", f"--pcm_rate={rate}"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-1].endswith("is not allowed; give 1000 to 768000 Hz")
