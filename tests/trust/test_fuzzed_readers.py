"""Readers get valid files with random changes: each is read, or refused with an error of ours, within seconds.

The changes are drawn from a seed. `make trust` draws 10^5, `make test` some.
"""

import io
import json
import logging
import random
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml
from references.bad_audio import OGG, OPUS, sound

from espnet_diverse.audio.features import features_shape
from espnet_diverse.audio.reading import open_file
from espnet_diverse.corpora.covost2 import read_tsv
from espnet_diverse.corpora.shared.table_files import read_table_file
from espnet_diverse.data.kaldi import scan_tables
from espnet_diverse.data.tables import scan_lines, scan_table
from espnet_diverse.errors import UserError
from espnet_diverse.runs.checkpoint import load
from espnet_diverse.text.foreign_sentencepiece import read_model
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.untrusted.foreign_config import check_config
from espnet_diverse.untrusted.foreign_yaml import read_yaml
from espnet_diverse.untrusted.zip_files import unzip

ROWS = "".join(f"u{i} wert {i} zwei & drei 你好 می‌رود\n" for i in range(8)).encode()
SEGMENTS = "".join(f"u{i} r{i // 2} {i}.25 {i + 1}.5\n" for i in range(8)).encode()
TSV = b"path\tsentence\tclient_id\n" + b"".join(b"a%d.wav\tein \\t satz\tc%d\n" % (i, i) for i in range(5))
CSV = b"audio,text,speaker\n" + b'a.wav,"ein, ""satz""",s\n' * 4
CONFIG = {"encoder": "transformer", "encoder_conf": {"num_blocks": 2, "rate": 0.1}, "token_list": ["<blank>", "a", "é"]}
INTERESTING = (
    *(b"\0", b"\xff", b"\n", b"\r", b"\t", b" ", b"'", b'"', b"|", b"{", b"[", b"../", b"&a ", b"*a ", b"<<: "),
    *(b"9" * 40, b"-1", b"nan", b"1e999", b"\xe2\x80\x8b", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x7f\xff\xff\xff"),
    b"!!python/name:os.system ",
)


def coded(**options) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound(0.2), 16_000, **options)
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("a/b.txt", "c.yaml"):
            archive.writestr(name, ROWS)
    return file.getvalue()


def weights() -> bytes:
    import torch

    file = io.BytesIO()
    torch.save({"weight": torch.ones(3, 4)}, file)
    return file.getvalue()


def read_sound(path: Path) -> None:
    with open_file(path) as file:
        file.check()


def read_zip(path: Path) -> None:
    unzip(path, path.parent / "unzipped", max_bytes=1 << 26, max_files=100)


def read_vocabulary(path: Path) -> None:
    path.with_name("tokens.yaml").write_text("algorithm: char\n")
    Vocabulary.load(path.parent)


def pieces() -> bytes:
    return Vocabulary.train(["ein satz", "zwei sätze"] * 9, "unigram", 16).model


def read_pieces(path: Path) -> None:
    processor = read_model(path.read_bytes())
    processor.decode(processor.encode("ein satz, 1 ﬁ 广州", out_type=str))


def read_config(path: Path) -> None:
    check_config(read_yaml(path, "x"), path)


READERS = {
    "wav.scp": ("wav.scp", ROWS, scan_table, 12),
    "text": ("text", ROWS, scan_table, 12),
    "utt2spk": ("utt2spk", ROWS, scan_table, 8),
    "segments": ("segments", SEGMENTS, scan_table, 12),
    "lines": ("a.txt", ROWS, scan_lines, 8),
    "directory": ("text", ROWS, lambda path: scan_tables(path.parent), 4),
    "tsv": ("a.tsv", TSV, lambda path: read_tsv(path, ("path", "sentence")), 8),
    "csv": ("table.csv", CSV, read_table_file, 8),
    "jsonl": ("table.jsonl", b'{"audio": "a.wav", "text": "x \\u00e9", "start": 1.5}\n' * 4, read_table_file, 8),
    "yaml": ("config.yaml", yaml.safe_dump(CONFIG).encode(), read_config, 8),
    "json in yaml": ("config.yaml", json.dumps(CONFIG).encode(), read_config, 4),
    "token list": ("tokens.txt", "<blank>\n<unk>\na\né\n<sos/eos>\n".encode(), read_vocabulary, 4),
    "sentencepiece": ("bpe.model", None, read_pieces, 4),
    "feats.scp": ("x", b"raw.ark:17[0:9]", lambda path: features_shape(" ".join(path.read_text("latin-1").split())), 4),
    "zip": ("a.zip", None, read_zip, 4),
    "checkpoint": ("a.pth", None, load, 2),
    "wav": ("a.wav", None, read_sound, 2),
    "flac": ("a.flac", None, read_sound, 2),
    "ogg": ("a.ogg", None, read_sound, 2),
    "opus": ("a.opus", None, read_sound, 2),
    "mp3": ("a.mp3", None, read_sound, 1),
}
"""By name: the name of the file, a valid content, the reader, and its share of the inputs."""
CONTENTS = {
    "sentencepiece": pieces,
    "zip": zipped,
    "checkpoint": weights,
    "wav": lambda: coded(format="WAV"),
    "flac": lambda: coded(format="FLAC"),
    "ogg": lambda: coded(**OGG),
    "opus": lambda: coded(**OPUS),
    "mp3": lambda: coded(format="MP3"),
}


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A content after one to six random changes."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed) + 1)
        length = min(rng.choice((1, 2, 8, 64)), len(changed) - at)
        kind = rng.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at:at] = rng.choice(INTERESTING)
        elif kind == 2:
            del changed[at : at + length]
        elif kind == 3:
            changed[at:at] = changed[at : at + length] * rng.choice((1, 2, 50))
        elif kind == 4:
            changed[at : at + length] = rng.randbytes(length)
        elif rng.random() < 0.3:
            del changed[at:]
    return bytes(changed)


def fuzz(tmp_path, total: int, seed: int) -> tuple[int, int, float]:
    """Numbers of inputs and of refusals, and the longest time."""
    shares = sum(share for *_, share in READERS.values())
    count = refused = 0
    longest = 0.0
    for name, (file, content, read, share) in READERS.items():
        content = CONTENTS[name]() if content is None else content
        rng = random.Random(f"{seed} {name}")
        folder = tmp_path / name
        (folder / "unzipped").mkdir(parents=True)
        for number in range(max(1, round(total * share / shares))):
            (folder / file).write_bytes(changed := mutated(content, rng))
            began = time.monotonic()
            try:
                read(folder / file)
            except UserError as error:
                refused += 1
                assert "\n" not in str(error), (name, number)
            except Exception as error:
                raise AssertionError(f"{name} {number} of seed {seed}: {changed[:300]!r}") from error
            longest = max(longest, time.monotonic() - began)
            count += 1
    return count, refused, longest


def test_some_changed_files_are_read_or_refused(tmp_path, caplog):
    caplog.set_level(logging.ERROR, "espnet_diverse")
    assert np.prod(fuzz(tmp_path, 1500, 1)[:2]) > 0


@pytest.mark.trust
def test_changed_files_are_read_or_refused(tmp_path, capsys, caplog):
    caplog.set_level(logging.ERROR, "espnet_diverse")
    count, refused, longest = fuzz(tmp_path, 100_500, 2)
    assert count >= 100_000 and longest < 5
    with capsys.disabled():
        print(f"\nfuzzed inputs: {count} over {len(READERS)} readers, {refused} refused, at most {longest:.2f} s each")
