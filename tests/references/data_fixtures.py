"""Small audio files, data directories and an AISHELL-1 tree to spoil."""

import hashlib
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.audio.reading import open_file
from espnet_diverse.data.kaldi import DataDir, write_data_dir

TRANSCRIPTS = {
    "train": {"BAC009S0002W0122": "而 对 楼市 成交", "BAC009S0003W0121": "甚至 出现 交易 几乎 停滞"},
    "dev": {"BAC009S0724W0121": "广州市 房地产"},
    "test": {"BAC009S0764W0121": "一二 线 城市"},
}


def tone(seconds: float, rate: int = 16000, hertz: float = 440.0) -> np.ndarray:
    """Half-scale sine, (T,) float32, with 16-bit values, so that writing it loses nothing."""
    time = np.arange(round(seconds * rate)) / rate
    return (np.rint(16384 * np.sin(2 * np.pi * hertz * time)) / 32768).astype(np.float32)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check_audio(path: Path) -> AudioInfo:
    """The header of a file, all of whose samples were checked."""
    with open_file(path) as file:
        file.check()
        return file.info


@pytest.fixture(name="tone")
def tone_function():
    return tone


@pytest.fixture
def write_wav():
    """Write a tone: write_wav(path, seconds=0.5, rate=16000, channels=1, hertz=440, **soundfile options) -> path."""

    def write(path: Path, seconds: float = 0.5, rate: int = 16000, channels: int = 1, hertz=440.0, **options) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = np.repeat(tone(seconds, rate, hertz)[:, None], channels, axis=1)
        soundfile.write(path, samples, rate, **({"subtype": "PCM_16"} | options))
        return path

    return write


@pytest.fixture
def data(tmp_path, write_wav) -> DataDir:
    """A set of three utterances by two speakers, in memory, with its audio under tmp_path/audio."""
    ids = {"a1": "a", "a2": "a", "b1": "b"}
    tones = zip(ids, (440, 550, 660), strict=True)
    wavs = {name: str(write_wav(tmp_path / "audio" / f"{name}.wav", hertz=hertz)) for name, hertz in tones}
    return DataDir(wavs, {"a1": "一 二", "a2": "三", "b1": "four five"}, ids)


@pytest.fixture
def data_dir(tmp_path, data) -> Path:
    """The same set on disk."""
    write_data_dir(data, tmp_path / "set")
    return tmp_path / "set"


@pytest.fixture
def aishell_tree(tmp_path, write_wav) -> Path:
    """An AISHELL-1 tree of four utterances in the official layout; returns the folder that holds data_aishell."""
    root = tmp_path / "corpus" / "data_aishell"
    for name, utterances in TRANSCRIPTS.items():
        for utterance in utterances:
            write_wav(root / "wav" / name / utterance[6:11] / f"{utterance}.wav")
    lines = [f"{utterance} {text}\n" for texts in TRANSCRIPTS.values() for utterance, text in texts.items()]
    (root / "transcript").mkdir()
    (root / "transcript" / "aishell_transcript_v0.8.txt").write_text("".join(lines), encoding="utf-8")
    return root.parent


@pytest.fixture
def mtedx_tree(tmp_path, write_wav) -> Path:
    """An mTEDx tree of es-es, es-en and de-de, and pt-en for testing only; a split is a talk of 2 s with 2 segments."""
    texts = {
        "es": ("¡Hola a todos! (Risas)", "Gracias."),
        "en": ("Hello everyone!", "Thank you."),
        "de": ("Ja.", "Nein."),
        "pt": ("Olá.", "Obrigado."),
    }
    for pair in ("es-es", "es-en", "de-de", "pt-en"):
        for split in ("train", "valid", "test"):
            if (pair, split) == ("pt-en", "train"):
                continue
            folder, talk = tmp_path / "mtedx" / pair / "data" / split, f"{split}talk"
            write_wav(folder / "wav" / f"{talk}.flac", seconds=2.0)
            (folder / "txt").mkdir()
            rows = f"{talk}_0000 {talk} 0.0 0.75\n{talk}_0001 {talk} 1.0 1.5\n"
            (folder / "txt" / "segments").write_text(rows)
            for language in set(pair.split("-")):
                (folder / "txt" / f"{split}.{language}").write_text("\n".join(texts[language]) + "\n", encoding="utf-8")
    return tmp_path / "mtedx"


@pytest.fixture
def write_texts(tmp_path):
    """write_texts({"raw/train.de": ["Haus", ...], ...}) -> tmp_path/corpus, which holds these files."""

    def write(files: dict[str, list[str]]) -> Path:
        for name, lines in files.items():
            path = tmp_path / "corpus" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return tmp_path / "corpus"

    return write


class Server:
    """A file on 127.0.0.1 whose answers a test can spoil.

    Attributes:
        url: Where the file is.
        content: The file.
        ranges: The Range header of each request so far, None where there was none.
        agents: The User-Agent of each request so far.
        broken: How many of the next answers break off in the middle.
        resumes: Whether Range requests are honoured.
        status: Sent instead of the file where not 200.
        kind: Content type.
        length: Sent as Content-Length instead of the right one.
    """

    def __init__(self, content: bytes):
        self.content, self.ranges, self.agents = content, [], []
        self.broken, self.resumes, self.status, self.kind = 0, True, 200, "application/octet-stream"
        self.length = ""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_port}/file"
        threading.Thread(target=self._http.serve_forever, args=[0.01], daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                """Say nothing."""

            def do_GET(self):  # noqa: N802
                server._answer(self)

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers["Range"]
        self.ranges.append(wanted)
        self.agents.append(request.headers["User-Agent"])
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.resumes else 0
        status = 416 if start >= len(self.content) and wanted else 206 if start else 200
        request.send_response(self.status if self.status != 200 else status)
        request.send_header("Content-Type", self.kind)
        if status == 416:
            request.send_header("Content-Range", f"bytes */{len(self.content)}")
        elif start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        rest = self.content[start:] if status != 416 and self.status == 200 else b""
        request.send_header("Content-Length", self.length or str(len(rest)))
        request.end_headers()
        self.broken, breaks = max(0, self.broken - 1), self.broken > 0
        with suppress(ConnectionError):  # the client may hang up after the header
            request.wfile.write(rest[: len(rest) // 2] if breaks else rest)


@pytest.fixture
def serve(monkeypatch):
    """serve(content) -> Server, stopped after the test; attempts follow each other at once."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("espnet_diverse.corpora.shared.download.PAUSE_SECONDS", 0)
    servers = []

    def start(content: bytes) -> Server:
        servers.append(Server(content))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
