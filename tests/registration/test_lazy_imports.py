"""What is put off when ESPnet is imported: it is not there at once, and there when it is used."""

import subprocess
import sys
from types import ModuleType

import pytest

from espnet_diverse.registration import lazy_imports


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_tasks_and_espnets_recognizer_leaves_heavy_packages_out():
    said = run(
        "import sys\n"
        "import espnet_diverse.training.espnet_command, espnet_diverse.training.tasks\n"
        "from espnet2.bin import asr_inference, mt_inference, st_inference\n"
        "heavy = ('transformers', 'inflect', 'sklearn', 'sympy', 'torch._dynamo', 'nltk.translate', 'hydra.core')\n"
        "print(*(name for name in heavy if name in sys.modules))\n"
        "from espnet2.asr.decoder import hugging_face_transformers_decoder as decoder\n"
        "from espnet2.text.cleaner import TextCleaner\n"
        "from transformers import BertConfig\n"
        "print(decoder.is_transformers_available, TextCleaner('tacotron')('Dr. 2'), BertConfig.model_type)"
    )
    assert said.splitlines() == ["", "False DOCTOR TWO bert"]


def test_espnet_finds_transformers_that_were_imported_before():
    said = run(
        "import espnet_diverse, sys, types\n"
        "sys.modules['transformers'] = types.SimpleNamespace(AutoTokenizer=None)\n"
        "from espnet2.text import hugging_face_tokenizer as tokenizer\n"
        "print(tokenizer.is_transformers_available)"
    )
    assert said == "True\n"


@pytest.fixture
def package(monkeypatch, tmp_path):
    """Not imported yet; it holds the module `inner`."""
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").touch()
    (tmp_path / "some_package" / "inner.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield "some_package"
    for name in ("some_package", "some_package.inner"):
        sys.modules.pop(name, None)


def test_an_absent_package_is_back_after_the_block_and_after_an_error_in_it(package):
    with pytest.raises(KeyError), lazy_imports.absent(package):
        with pytest.raises(ModuleNotFoundError, match="some_package"):
            import some_package
        with pytest.raises(ModuleNotFoundError, match="some_package"):
            import some_package.inner
        with lazy_imports.absent(package):
            pass
        with pytest.raises(ModuleNotFoundError, match="some_package"):
            import some_package
        raise KeyError
    import some_package.inner

    with lazy_imports.absent(package):
        import some_package  # noqa: F401


@pytest.fixture
def typechecked():
    typeguard = ModuleType("typeguard")
    typeguard.calls = []

    def check(target=None, **options):
        typeguard.calls.append((target, options))
        return (lambda *values: ("checked", *values)) if options == {} else check

    typeguard.typechecked = check
    lazy_imports.check_at_first_call(typeguard)
    lazy_imports.check_at_first_call(typeguard)  # has been served
    return typeguard


def espnets(value, other=1):
    """A function of ESPnet."""
    return value, other


espnets.__module__ = "espnet2.tasks.some"


def test_a_function_of_espnet_is_checked_at_its_first_call(typechecked):
    function = typechecked.typechecked(espnets)
    assert typechecked.calls == [] and function.__doc__ == espnets.__doc__
    assert [function(3), function(4)] == [("checked", 3), ("checked", 4)]
    assert typechecked.calls == [(espnets, {})]


def test_what_is_not_espnets_or_not_a_plain_function_of_a_module_is_checked_at_once(typechecked):
    def inner():
        pass

    inner.__module__ = espnets.__module__
    targets = [run, inner, type("Class", (), {"__module__": espnets.__module__}), staticmethod(espnets)]
    for target in targets:
        typechecked.typechecked(target)
    typechecked.typechecked(forward_ref_policy=1)
    assert typechecked.calls == [*((target, {}) for target in targets), (None, {"forward_ref_policy": 1})]


def test_espnet_checks_types_as_before():
    from espnet2.asr.ctc import CTC
    from espnet2.tasks.asr import ASRTask
    from typeguard import TypeCheckError

    for _ in range(2):
        with pytest.raises(TypeCheckError, match='argument "odim"'):
            CTC("five", 4)
    with pytest.raises(TypeCheckError, match='argument "args"'):
        ASRTask.build_preprocess_fn("args", True)


def test_g2p_en_is_executed_when_it_is_used(monkeypatch, tmp_path):
    (tmp_path / "g2p_en.py").write_text("import sys\nsys.g2p_en_ran = True\nclass G2p: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "g2p_en", raising=False)
    monkeypatch.setattr(sys, "g2p_en_ran", False, raising=False)
    import g2p_en

    assert g2p_en.__spec__.name == "g2p_en" and not hasattr(g2p_en, "__wrapped__")
    assert not sys.g2p_en_ran
    assert g2p_en.G2p.__name__ == "G2p"
    assert sys.g2p_en_ran
    with pytest.raises(AttributeError, match="G3p"):
        _ = g2p_en.G3p
    monkeypatch.delitem(sys.modules, "g2p_en")
