"""Folders of Whisper models with random hostile changes: each is refused in one line, or transcribes.

The changes are drawn from a seed. Each folder is used in a process of its own, with 2 GB of memory and 20 seconds,
which may neither connect nor start a program. `make trust` draws 500, `make test` some.
"""

import copy
import json
import random
import shutil
import sys

import numpy as np
import pytest
from references.limited import limited
from references.whisper import write_whisper

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import UserError
from espnet_diverse.inference import Recognizer
from espnet_diverse.packing.adoption import adopt
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.packed.archive import unpacked

FILES = ("config.json", "generation_config.json", "tokenizer.json")
WEIGHTS = "model.safetensors"
VALUES = (
    *(None, True, 0, -1, 1, 3, 0.5, 10**9, 10**400, 1e308, float("nan"), float("inf"), "", "x", "1", "/dev/zero"),
    *("x" * 10**6, "evil/repository", "os.system", "\x00", "<|en|>", "../../x", [], {}, [[]], [None], [1] * 1000),
    *(
        [[0, 0] for _ in range(10_000)],
        [[10**9, -1]],
        {"a": {"b": [1]}},
        {"__class__": "os.system"},
        {"auto_map": "evil--x.Model"},
    ),
)
ADDED = {
    "auto_map": {"AutoModel": "evil/code--model.Evil", "AutoConfig": "evil.Config"},
    "architectures": ["os.system"],
    "_attn_implementation": "evil/kernel",
    "trust_remote_code": True,
    "quantization_config": {"quant_method": "evil", "load_in_8bit": True},
    "custom_pipelines": {"x": {"impl": "evil.X"}},
    "tokenizer_class": "evil.Tokenizer",
    "_name_or_path": "evil/repository",
    "encoder_layerdrop": float("nan"),
    "torch_dtype": "evil",
    "config.yaml": {"task": "asr"},
}
LONGEST = 1500
"""Characters of an error."""
FORBIDDEN = ("socket.connect", "socket.getaddrinfo", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")


def places(value, most=4000):
    """Containers and keys of a value of JSON, at any depth; of a long one some."""
    found, todo = [], [value]
    while todo and len(found) < most:
        here = todo.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here))
        found += [(here, key) for key in list(keys)[:20]]
        todo += [here[key] for key in list(keys)[:20] if isinstance(here[key], dict | list)]
    return found


def changed_json(draw, path):
    """Change a value, remove it, or add one that a library would follow; some files get bytes that are no JSON."""
    content = json.loads(path.read_text("utf-8"))
    for _ in range(draw.choice((1, 1, 1, 3))):
        holder, key = draw.choice(places(content) or [(content, None)])
        if key is None or draw.random() < 0.15:
            content.update([copy.deepcopy(draw.choice([*ADDED.items()]))])
        elif draw.random() < 0.15:
            del holder[key]
            break
        else:
            holder[key] = copy.deepcopy(draw.choice(VALUES))  # a later change may be in it
    data = json.dumps(content).encode()
    return draw.choice((b"", b"[" * 10**6, data[: len(data) // 2], b"\xff" + data)) if draw.random() < 0.05 else data


def changed_weights(draw, content):
    """Change the header of a file of safetensors, or some of its bytes."""
    size = int.from_bytes(content[:8], "little")
    kind = draw.choice(("header", "header", "header", "bytes", "short", "size"))
    if kind == "header":
        header = json.loads(content[8 : 8 + size])
        name = draw.choice([key for key in header if key != "__metadata__"])
        value = draw.choice(([], [10**9, 10**9], [-1], [0], "F64", "I8", "BOOL", [0, 1 << 60], [1.5], None, "x"))
        if draw.random() < 0.3:
            header[draw.choice(("evil.weight", "model.encoder.layers.9.fc1.weight", "x" * 10**5))] = header.pop(name)
        else:
            header[name][draw.choice(("dtype", "shape", "data_offsets"))] = value
        made = json.dumps(header).encode()
        return len(made).to_bytes(8, "little") + made + content[8 + size :]
    if kind == "short":
        return content[: draw.randrange(len(content))]
    if kind == "size":
        return draw.choice((0, 7, 1 << 20, 1 << 62)).to_bytes(8, "little") + content[8:]
    made = bytearray(content)
    for _ in range(draw.choice((1, 100))):
        made[draw.randrange(len(made))] = draw.choice((0, 0x7F, 0xFF, draw.randrange(256)))
    return bytes(made)


def used(folder, output_dir):
    """Open a folder as a model, transcribe half a second, and adopt it."""
    sys.addaudithook(forbid)
    run = unpacked(folder)
    recognizer = Recognizer(run, options=SearchOptions(beam_size=2, maxlenratio=-6))
    recognizer.transcribe(np.zeros(8000, "float32"), 16_000)
    adopt(run, output_dir, merge([]))


def forbid(event, _):
    if event in FORBIDDEN:
        raise AssertionError(f"{event} is called")


@pytest.fixture
def check(tmp_path, monkeypatch):
    """A function that makes folders from seeds, uses them, and returns the number of refused ones, and the longest."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    write_whisper(whole := tmp_path / "whole")

    def check_seeds(seeds):
        refused, longest, wrong = 0, 0.0, []
        for seed in seeds:
            draw = random.Random(seed)
            shutil.copytree(whole, folder := tmp_path / "folder")
            file = draw.choice((*FILES, *FILES, WEIGHTS))
            path = folder / file
            path.write_bytes(changed_weights(draw, path.read_bytes()) if file == WEIGHTS else changed_json(draw, path))
            found = limited(lambda: used(folder, tmp_path / "out"), UserError)  # noqa: B023, called at once
            refused, longest = refused + (found.code == 1), max(longest, found.seconds)
            if found.code not in (0, 1) or "\n" in found.said or len(found.said) > LONGEST:
                wrong.append(f"seed {seed}, {file}: {found.code} {found.said[-LONGEST:]}")
            for name in ("folder", "cache", "out"):
                shutil.rmtree(tmp_path / name, ignore_errors=True)
        assert not wrong, "\n".join(wrong)
        return refused, longest

    return check_seeds


def test_a_folder_without_changes_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    write_whisper(tmp_path / "whole")
    assert limited(lambda: used(tmp_path / "whole", tmp_path / "out"), UserError).code == 0


def test_some_hostile_folders(check):
    refused, _ = check(range(500, 525))
    assert refused > 5


@pytest.mark.trust
@pytest.mark.timeout(3600)
def test_hostile_folders(check, capsys):
    refused, longest = check(range(500))
    with capsys.disabled():
        print(f"\n500 hostile Whisper folders: {refused} refused, the others harmless, at most {longest:.1f} s each")
