"""Modules that `fast_start` defers: not executed at once, and available when they are used."""

import subprocess
import sys
import threading
from functools import partial
from importlib import import_module
from types import ModuleType

import pytest

from espnet_diverse.registration import lazy_imports
from espnet_diverse.registration.import_hooks import HookedLoader, ImportHooks
from espnet_diverse.registration.lazy_imports import explain_missing_transformers


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


FAST = "from espnet_diverse.registration import fast_start\nfast_start()\n"


def test_importing_the_tasks_and_espnets_recognizer_leaves_heavy_packages_out_and_says_nothing():
    said = run(
        f"{FAST}import sys\n"
        "import espnet_diverse.training.espnet_command, espnet_diverse.runs.tasks\n"
        "from espnet2.bin import asr_inference, mt_inference, st_inference\n"
        "heavy = ('transformers', 'inflect', 'sklearn', 'sympy', 'torch._dynamo', 'nltk.translate', 'hydra.core',\n"
        "         'numba', 'scipy.stats', 'scipy.signal._filter_design', 'librosa.filters', 'h5py._hl')\n"
        "print(*(name for name in heavy if name in sys.modules))\n"
        "from espnet2.asr.decoder import hugging_face_transformers_decoder as decoder\n"
        "from transformers import BertConfig\n"
        "print(decoder.is_transformers_available, BertConfig.model_type)"
    )
    assert said.splitlines() == ["", "False bert"]


def test_espnet_finds_transformers_that_were_imported_before():
    said = run(
        f"{FAST}import sys, types\n"
        "sys.modules['transformers'] = types.SimpleNamespace(AutoTokenizer=None)\n"
        "from espnet2.text import hugging_face_tokenizer as tokenizer\n"
        "print(tokenizer.is_transformers_available)"
    )
    assert said == "True\n"


def test_our_command_starts_fast_and_its_import_does_not():
    said = run(
        "import sys\n"
        "from espnet_diverse.bin.main import main\n"
        "names = lambda: [type(finder).__name__ for finder in sys.meta_path]\n"
        "print('_FastStart' in names())\n"
        "try: main(['average', '--help'])\n"
        "except SystemExit: print('_FastStart' in names())"
    )
    lines = said.splitlines()
    assert (lines[0], lines[-1]) == ("False", "True")


def test_a_second_call_and_a_switched_off_one_do_nothing(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, lazy_imports._FastStart)])
    finders = len(sys.meta_path)
    monkeypatch.setenv(lazy_imports.SWITCH, "0")
    lazy_imports.fast_start()
    assert len(sys.meta_path) == finders
    monkeypatch.delenv(lazy_imports.SWITCH)
    for _ in range(2):
        lazy_imports.fast_start()
        assert len(sys.meta_path) == finders + 1


def test_only_warnings_about_the_code_of_espnet_and_its_dependencies_are_ignored():
    probe = "import warnings; warnings.simplefilter('default')\nwarnings.filterwarnings('ignore', module='.*probe')\n"
    probe += "warnings.showwarning = lambda *given: print('shown')\ncompile('1 is 1', '/probe/a.py', 'exec')"
    if run(probe):
        pytest.skip("this Python tells filters no path of a warning of the compiler")
    said = run(
        f"{FAST}import warnings\n"
        "warnings.showwarning = lambda message, category, filename, *rest: print(filename)\n"
        "for name in ('espnet2/tasks/asr.py', 'jamo/jamo.py', 'mine/model.py', 'my_espnet2/model.py'):\n"
        "    compile('1 is 1', f'/lib/site-packages/{name}', 'exec')"
    )
    assert said.split() == ["/lib/site-packages/mine/model.py", "/lib/site-packages/my_espnet2/model.py"]


def test_the_message_about_hidden_transformers_says_how_to_get_them(monkeypatch):
    espnets = "`transformers` is not available. Please install it via `pip install transformers`"
    assert "set the environment variable ESPNET_DIVERSE_FAST_START=0" in explain_missing_transformers(espnets)
    assert explain_missing_transformers("no module six") == "no module six"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert explain_missing_transformers(espnets) == espnets
    monkeypatch.undo()
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, lazy_imports._FastStart)])
    assert explain_missing_transformers(espnets) == espnets


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


def test_a_hidden_package_is_back_after_the_block_and_after_an_error_in_it(package):
    with pytest.raises(KeyError), lazy_imports.hidden(package):
        with pytest.raises(ModuleNotFoundError, match="some_package"):
            import some_package
        with pytest.raises(ModuleNotFoundError, match="some_package"):
            import some_package.inner
        with lazy_imports.hidden(package):
            pass
        with pytest.raises(ModuleNotFoundError, match="some_package"):
            import some_package
        raise KeyError
    import some_package.inner

    with lazy_imports.hidden(package):
        import some_package  # noqa: F401


def in_a_thread(function):
    """The result of a function in another thread, or the exception that it raises."""
    found = []

    def call():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(10)
    return found[0]


def test_a_package_is_hidden_from_one_thread_alone(package):
    with lazy_imports.hidden(package):
        with pytest.raises(ModuleNotFoundError, match="some_package"):
            import_module(package)
        assert in_a_thread(lambda: import_module(f"{package}.inner")).__name__ == f"{package}.inner"
        import_module(package)  # another thread has imported it


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


def test_all_but_top_level_espnet_functions_are_checked_at_once(typechecked):
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


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A module that takes a decorator from one package and an object from another; both are not imported yet."""
    (tmp_path / "decorating.py").write_text("def jit(**options):\n    return lambda f: lambda x: (options, f(x))\n")
    (tmp_path / "holding.py").write_text("import math as betabinom\n")
    source = "from decorating import jit\nfrom holding import betabinom\n\n\n"
    source += "@jit(nopython=True)\ndef twice(x):\n    'Two times x.'\n    return 2 * x\n"
    (tmp_path / "using.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("decorating", "holding", "using"):
        sys.modules.pop(name, None)


@pytest.fixture
def using_later(user, monkeypatch):
    """Imports the module, which is to import its packages later."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    names = {"decorating": "jit", "holding": "betabinom"}
    hook = partial(HookedLoader, before=partial(lazy_imports.import_later, names=names))
    ImportHooks({"using": hook}).install()
    return lambda: import_module("using")


def test_deferred_packages_are_imported_on_first_use(using_later):
    using = using_later()
    assert not {"decorating", "holding"} & sys.modules.keys()
    assert using.twice.__doc__ == "Two times x."
    assert using.betabinom.sqrt(4) == 2 and "holding" in sys.modules and "decorating" not in sys.modules
    assert [using.twice(3), using.twice(4)] == [({"nopython": True}, 6), ({"nopython": True}, 8)]


def test_an_already_imported_package_is_not_deferred(using_later):
    import holding

    assert using_later().betabinom is holding.betabinom and sys.modules["holding"] is holding


def test_a_placeholder_is_confined_to_its_module(using_later, tmp_path):
    """Another import of the package, while the module is being executed, gets the package itself."""
    source = tmp_path / "using.py"
    source.write_text(source.read_text() + "\nimport sys\nsys.within()\n")
    found = []
    sys.within = lambda: found.append(in_a_thread(lambda: import_module("holding").betabinom.sqrt(4)))
    try:
        using = using_later()
    finally:
        del sys.within
    assert found == [2.0] and isinstance(using.betabinom, lazy_imports._Later)


def test_only_functions_of_its_thread_are_decorated_without_the_compiler(monkeypatch):
    monkeypatch.setattr("torch.compiler.disable", lambda *args, **options: ("disabled", args, options))
    with lazy_imports.compiler_later():
        from torch.compiler import disable

        assert in_a_thread(lambda: disable(len)) == ("disabled", (len,), {})
        assert disable(recursive=False) == ("disabled", (None,), {"recursive": False})
        assert disable(len)([1, 2]) == 2


@pytest.mark.recipes
def test_the_alignment_of_speech_synthesis_works_with_packages_that_are_imported_later():
    said = run(
        f"{FAST}import sys\n"
        "from espnet2.gan_tts.jets import alignments\n"
        "print('numba' in sys.modules, 'scipy.stats' in sys.modules)\n"
        "import numpy as np\n"
        "print(alignments._monotonic_alignment_search(np.log(np.array([[.9, .1], [.8, .2], [.1, .9]]))))\n"
        "print(round(alignments.betabinom.logpmf(1, 2, 1, 1), 3), 'scipy.stats' in sys.modules)"
    )
    assert said.splitlines() == ["False False", "[0 0 1]", "-1.099 True"]


def test_features_have_the_filters_of_librosa():
    said = run(
        f"{FAST}import sys\n"
        "from espnet2.layers.log_mel import LogMel\n"
        "ours = LogMel(fs=8000, n_fft=256, n_mels=23, fmin=20, fmax=3800, htk=True)\n"
        "import librosa, torch\n"
        "print('librosa.filters' in sys.modules)\n"
        "theirs = librosa.filters.mel(sr=8000, n_fft=256, n_mels=23, fmin=20, fmax=3800, htk=True)\n"
        "print(torch.equal(ours.melmat, torch.from_numpy(theirs.T).float()))"
    )
    assert said.splitlines() == ["False", "True"]
