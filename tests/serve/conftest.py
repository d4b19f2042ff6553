"""Tiny models on a running server. What they know are tones; they write three tokens to six, or what they want."""

import functools
from types import SimpleNamespace

import openai
import pytest
from references.owsm_ctc import write_ctc_model
from serve.running import running

from espnet_diverse.serve.limits import Limits

LENGTHS = {"minlenratio": -3.0, "maxlenratio": -6.0}
LIMITS = Limits(seconds=30.0, megabytes=2.0, waiting=64)


@pytest.fixture(scope="session")
def load(tiny_run, streaming_run, tmp_path_factory):
    """A function that loads the models tones, streaming and many (of languages), each once for all tests."""
    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.inference import Recognizer
    from espnet_diverse.serve.live import live_recognition
    from espnet_diverse.serve.models import Model
    from espnet_diverse.transcription.segmentation_options import SegmentationOptions

    many = tmp_path_factory.mktemp("many") / "model"
    folders = {"tones": tiny_run.model_dir, "streaming": streaming_run, "many": many}
    energy = SegmentationOptions("energy", max_seconds=2.0)

    @functools.cache
    def recognizer(name):
        if name == "many":
            write_ctc_model(many)
        options = SearchOptions(**LENGTHS, beam_size=4) if name == "tones" else SearchOptions()
        return Recognizer(folders[name], options=options, segmentation=energy)

    def load(name, limits=LIMITS, wait=0.05):
        found = recognizer(name)
        live = live_recognition(found.search, folders[name] / "config.yaml", limits, energy)
        return Model(found, limits, 32, wait, live)

    load.recognizer = recognizer
    return load


@pytest.fixture(scope="module")  # or its thread would be there when later tests fork
def served(load, tiny_run):
    """A server of the three models; `models` has them, and `client` is OpenAI's."""
    from espnet_diverse.serve.models import Models
    from espnet_diverse.serve.transcriptions import api

    models = Models(["tones", "streaming", "many"], load, 3)
    with running(api(models, LIMITS)) as server, client_of(server) as client:
        client.audio.transcriptions.create(file=tiny_run.test_dir / "test-00.wav", model="tones")  # which loads it
        yield SimpleNamespace(server=server, models=models, client=client, recognizer=load.recognizer)


def client_of(server, key="none"):
    """OpenAI's client of a server."""
    return openai.OpenAI(base_url=f"{server.url}v1", api_key=key, max_retries=0, timeout=60)
