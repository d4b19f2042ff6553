"""Models that are loaded when they are first asked for, and dropped for others."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from espnet_diverse.errors import ModelError
from espnet_diverse.serve.models import Models, speech_model
from espnet_diverse.serve.refusals import RefusedError


class Loader:
    """Makes stand-ins of models; `loaded` has the names in order, `closed` those that were dropped."""

    def __init__(self):
        self.loaded, self.closed = [], []

    def __call__(self, name):
        self.loaded.append(name)
        if name == "damaged":
            raise ModelError("/a/path/of/the/server: is damaged")
        model = SimpleNamespace(name=name, users=0)
        model.batches = SimpleNamespace(close=lambda: self.closed.append(name), is_idle=True)
        return _Idle(model)


class _Idle:
    def __init__(self, model):
        self.name, self.users, self.batches = model.name, 0, model.batches

    @property
    def is_idle(self):
        return not self.users


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
def models(loader):
    return Models(["a", "b", "c", "damaged"], loader, 2)


async def name_of(models, name):
    async with models.use(name) as model:
        return model.name


def test_a_model_is_loaded_for_others_when_its_request_ends_before():
    may, loader = threading.Event(), Loader()
    models = Models(["a"], lambda name: may.wait(20) and loader(name), 2)

    async def run():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(name_of(models, "a"), 0.1)
        may.set()
        return await name_of(models, "a")

    assert asyncio.run(run()) == "a" and loader.loaded == ["a"]


def test_a_model_is_loaded_once_and_the_one_not_used_for_longest_is_dropped(models, loader):
    async def run():
        for name in "abacab":
            assert await name_of(models, name) == name
        return loader.loaded, loader.closed

    assert asyncio.run(run()) == ([*"abcb"], [*"bc"])


def test_requests_at_once_load_a_model_once(models, loader):
    async def run():
        return await asyncio.gather(*(name_of(models, "ab"[index % 2]) for index in range(20)))

    assert asyncio.run(run()) == [*"ab"] * 10 and loader.loaded == [*"ab"]


def test_a_model_that_was_just_loaded_is_not_dropped_before_its_request_uses_it(loader):
    async def run():
        models = Models(["a", "b"], loader, 1)
        return await asyncio.gather(name_of(models, "a"), name_of(models, "b"), return_exceptions=True)

    first, second = asyncio.run(run())
    assert first == "a" and isinstance(second, RefusedError) and second.status == 429 and not loader.closed


def test_a_model_in_use_is_not_dropped(models, loader):
    async def run():
        async with models.use("a"):
            await name_of(models, "b")
            await name_of(models, "c")  # in the place of b
            async with models.use("c"):
                with pytest.raises(RefusedError, match="model 'b' is not loaded, and the loaded ones are in use"):
                    await name_of(models, "b")
                assert await name_of(models, "a") == "a"
        assert await name_of(models, "b") == "b"

    asyncio.run(run())
    assert loader.closed == ["b", "c"]


def test_names_that_are_unknown_or_missing(models, loader):
    async def run():
        with pytest.raises(RefusedError, match="^model is missing; give one of a b c damaged$"):
            await name_of(models, "")
        for name in ("d", "../a"):
            with pytest.raises(RefusedError, match="does not exist; known: a b c damaged"):
                await name_of(models, name)
        for name in ("", "whisper-1", "gpt-4o-transcribe"):
            assert await name_of(Models(["only"], loader, 1), name) == "only"
        with pytest.raises(RefusedError, match="model 'whisper-1' does not exist; known: a b c damaged"):
            await name_of(models, "whisper-1")
        with pytest.raises(RefusedError, match="model 'whisper' does not exist; known: only"):
            await name_of(Models(["only"], loader, 1), "whisper")
        assert await name_of(Models(["only", "whisper-1"], loader, 1), "whisper-1") == "whisper-1"

    asyncio.run(run())


def test_a_model_that_cannot_be_loaded_tells_no_path(models, loader, caplog):
    async def run():
        with pytest.raises(RefusedError) as caught:
            await name_of(models, "damaged")
        assert str(caught.value) == "model 'damaged' cannot be loaded; see the terminal of the server for details"
        assert caught.value.status == 500 and await name_of(models, "a") == "a"

    asyncio.run(run())
    assert "/a/path/of/the/server: is damaged" in caplog.text


def test_models_of_text_are_refused_before_they_are_loaded(tiny_run, tiny_translation, tmp_path):
    assert speech_model(tiny_run.model_dir) == tiny_run.model_dir
    with pytest.raises(ModelError, match="a model of task mt is not possible here; known: asr st s2t s2t_ctc"):
        speech_model(tiny_translation.model_dir)
    with pytest.raises(ModelError, match="is not the directory of a run"):
        speech_model(tmp_path)
