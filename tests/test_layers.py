"""Imports go only down, and nothing in the tree runs text as code: both are read from the syntax trees."""

import ast
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "espnet_diverse"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [
    ROOT / "setup.py",
    *sorted(p for d in ("benchmarks", "docs", "egs", "examples", "tests") for p in (ROOT / d).rglob("*.py")),
]
SOURCES += MODULES

# Subpackages without nets, lowest first; and the layers above them. Subpackages of a line
# do not import each other.
BESIDE = [
    {"errors", "conditions", "portable", "process_state"},
    {"option_checks", "progress", "onnx_runtime"},
    {"untrusted"},
    {"audio"},
    {"data"},
    {"text", "corpora", "stage_cache", "pictures"},
    {"scoring", "vocabulary", "stage_runs"},
]
LAYERS = [
    {"functional"},
    {"scope"},
    {"attention"},
    {"upstream"},
    {"nets", "cpu"},
    {"contrib"},
    {"registration"},
    {"runs"},
    {"training", "cluster"},
    {"decoding", "learning"},
    {"packing", "transcription", "analysis"},
    {"inference", "contest"},
    {"serve"},
    {"demo"},
    {"bin"},
]
TRAINERS = {"training", "learning", "bin"}  # parts that may import `training`
ATTENTION_BESIDE = {"conditions", "option_checks"}  # parts beside that attention may import; below it, none


def may_import() -> dict[str, set[str]]:
    """Allowed imports of each part: itself, parts below it, and for attention and above parts beside."""
    allowed, below = {"__init__": {"registration", "inference", "learning"}, "__main__": {"bin"}}, set()
    for line in BESIDE:
        allowed |= {part: below | {part} for part in line}
        below = below | line
    beside, below = below, set()
    for line in LAYERS:
        theirs = beside if not line & TORCH_ONLY else ATTENTION_BESIDE if line == {"attention"} else set()
        allowed |= {part: below | {part} | theirs for part in line}
        below = below | line
    return {part: theirs - (set() if part in TRAINERS else {"training"}) for part, theirs in allowed.items()}


TORCH_ONLY = {"functional", "attention", "scope"}
NO_NET = set().union(*BESIDE)
ESPNET = set().union(*LAYERS) - TORCH_ONLY
MAY_IMPORT = may_import()


def part(path: Path) -> str:
    """The part of the package that a file belongs to: its folder below the package, or its own stem."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imports(tree: ast.AST) -> set[str]:
    """Dotted names of all imports, those inside functions too."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import; write the full name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


_ESPNET = {"espnet", "espnet2", "espnet3"}


def import_faults(here: str, tree: ast.AST) -> list[str]:
    """Imports of the part `here` that break the rules."""
    faults = []
    for name in sorted(imports(tree)):
        top, *rest = name.split(".")
        if top == "espnet_diverse":
            below = rest[0] if rest else ""
            # Without a part it is the root that is imported, for what it installs or its version.
            if below in MAY_IMPORT and below not in MAY_IMPORT[here]:
                faults.append(f"{here} imports {name}")
        elif (
            (here in TORCH_ONLY and top != "torch" and top not in sys.stdlib_module_names)
            or (here in NO_NET and top in {"torch", "torchaudio", *_ESPNET})
            or (here not in ESPNET and top in _ESPNET)
            or (here != "upstream" and name.startswith("espnet2.legacy"))
            or top in {"tests", "egs", "benchmarks", "conftest"}
        ):
            faults.append(f"{here} imports {name}")
    return faults


def code_faults(tree: ast.AST) -> list[str]:
    """Calls and imports that run or unpickle what they read, or hand text to a shell."""
    faults = [f"imports {name}" for name in imports(tree) if name in _UNPICKLING]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            last = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = ast.unparse(node.func) if last in _LAST_WORDS else ""
            if name in _RUNNING | _UNPICKLING | _UNSAFE_YAML:
                faults.append(f"line {node.lineno}: calls {name}")
            for keyword in node.keywords:
                value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                if (keyword.arg, value) in {("shell", True), ("weights_only", False)}:
                    faults.append(f"line {node.lineno}: passes {keyword.arg}={value}")
    return faults


_RUNNING = {"eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
_UNSAFE_YAML = {f"yaml.{name}" for name in ("load", "load_all", "full_load", "unsafe_load")}
_UNPICKLING = {
    f"{module}.{name}"
    for module in ("pickle", "dill", "cloudpickle", "joblib", "marshal")
    for name in ("load", "loads", "Unpickler")
}
_LAST_WORDS = {name.rpartition(".")[2] for name in _RUNNING | _UNPICKLING | _UNSAFE_YAML}


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


FOLDERS = sorted({path.parent for path in MODULES})


def children(folder: Path) -> dict[str, set[str]]:
    """The modules and folders in a folder, by name, and which of the others each imports."""
    here = ".".join(folder.relative_to(ROOT).parts) + "."
    found: dict[str, set[str]] = {}
    for path in MODULES:
        if folder in path.parents and path != folder / "__init__.py":
            child = path.relative_to(folder).parts[0].removesuffix(".py")
            below = {name[len(here) :].split(".")[0] for name in imports(parse(path)) if name.startswith(here)}
            found.setdefault(child, set()).update(below - {child})
    return {child: below & found.keys() for child, below in found.items()}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_a_folder_is_one_way_inside(folder):
    """No circle among its modules and folders, each folder taken as a whole."""
    list(TopologicalSorter(children(folder)).static_order())  # a CycleError names the circle


def test_imports_go_only_down():
    assert faults_of(lambda path: import_faults(part(path), parse(path)), MODULES) == {}


def test_sources_call_no_eval_pickle_or_shell():
    assert faults_of(lambda path: code_faults(parse(path)), SOURCES) == {}


def test_imported_packages_are_declared_in_setup():
    assert faults_of(lambda path: undeclared(parse(path)), SOURCES) == {}


def undeclared(tree: ast.AST) -> list[str]:
    """Imported packages that setup.py does not name: they are there only as long as some other package wants them."""
    tops = {name.partition(".")[0] for name in imports(tree)} - sys.stdlib_module_names
    return sorted(top for top in tops if not declared() & {_plain(top), *packages().get(top, ())})


@cache
def declared() -> set[str]:
    """Packages of setup.py and their requirements, and folders and modules of the repository."""
    texts = [node.value for node in ast.walk(parse(ROOT / "setup.py")) if isinstance(node, ast.Constant)]
    found = [re.fullmatch(r"([\w.-]+)(?:\[(\w+)\])?(?:>=[\d.]+)?", str(text)) for text in texts]
    own = {_plain(name) for match in found if match for name in match.groups() if name}
    installed = own & {name for names in packages().values() for name in names}
    lines = [line for name in installed for line in importlib.metadata.requires(name) or () if "extra ==" not in line]
    required = {_plain(re.match(r"[\w.-]+", line)[0]) for line in lines}
    here = {_plain(name) for path in SOURCES for name in (path.parent.name, path.stem)}
    return own | required | here | {"some-package", "holding"}  # two of tests that make them


@cache
def packages() -> dict[str, set[str]]:
    """The installed packages that a top-level name comes from."""
    found = importlib.metadata.packages_distributions()
    return {top: {_plain(name) for name in names} for top, names in found.items()}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_files_functions_and_constructors_are_small():
    assert faults_of(sizes, SOURCES) == {}


def faults_of(find: Callable[[Path], list[str]], paths: Iterable[Path]) -> dict[str, list[str]]:
    """Faults by file, in one test: thousands of tests of a millisecond would take half a minute."""
    found = {str(path.relative_to(ROOT)): find(path) for path in paths}
    return {name: faults for name, faults in found.items() if faults}


def sizes(path: Path) -> list[str]:
    """Files of more than 400 lines, functions of 80 or more and constructors of more than 10 parameters."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    faults = [f"has {lines} lines"] * (lines > 400)
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            faults += [f"{node.name} has 80 lines or more"] * (node.end_lineno - node.lineno >= 79)
            count = len(node.args.args) + len(node.args.kwonlyargs) - 1
            faults += [f"constructor in line {node.lineno}"] * (node.name == "__init__" and count > 10)
    return faults


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("functional", "import numpy"),
        ("functional", "from espnet_diverse.attention import core"),
        ("functional", "from espnet_diverse.errors import DataError"),
        ("functional", "from espnet_diverse.option_checks import check"),
        ("scope", "from espnet_diverse.conditions import CONDITIONS"),
        ("attention", "from espnet_diverse.progress import progress"),
        ("attention", "def f():\n    import espnet2.asr"),
        ("attention", "from espnet_diverse import nets"),
        ("nets", "import espnet_diverse.runs.config"),
        ("nets", "from espnet_diverse.contrib.flowseq import FlowDecoder"),
        ("runs", "from espnet_diverse.training.loop.trainer import Trainer"),
        ("training", "from espnet_diverse.cluster.pool import Pool"),
        ("decoding", "from espnet_diverse.training.loop import precision"),
        ("demo", "import espnet_diverse.training.stages"),
        ("learning", "from espnet_diverse.bin.main import main"),
        ("nets", "from espnet2.legacy.nets.beam_search import BeamSearch"),
        ("upstream", "import espnet_diverse.nets"),
        ("corpora", "import torch.nn"),
        ("text", "from espnet2.text import x"),
        ("scoring", "from espnet_diverse.nets import x"),
        ("training", "from espnet_diverse.bin.main import main"),
        ("training", "from tests.references import x"),
        ("progress", "import espnet2"),
        ("stage_cache", "from espnet_diverse.runs import config"),
    ],
)
def test_an_import_that_goes_up_is_found(here, source):
    assert len(import_faults(here, ast.parse(source))) == 1


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("functional", "import math, torch.nn.functional"),
        ("attention", "from espnet_diverse.scope import current"),
        ("nets", "from espnet2.asr import x"),
        ("upstream", "from espnet2.legacy.nets.beam_search import BeamSearch"),
        ("corpora", "import numpy, soundfile"),
        ("training", "import espnet_diverse"),
        ("bin", "from espnet_diverse.training import stages"),
        ("learning", "from espnet_diverse.training.pipeline import Training"),
        ("packing", "from espnet_diverse.runs.tasks import load_model"),
        ("bin", "from espnet_diverse.bin.main import main"),
    ],
)
def test_an_import_that_goes_down_is_none(here, source):
    assert import_faults(here, ast.parse(source)) == []


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "exec(text)",
        "pickle.loads(data)",
        "from pickle import load",
        "yaml.load(text, Loader=yaml.SafeLoader)",
        "yaml.unsafe_load(text)",
        "subprocess.run(command, shell=True)",
        "torch.load(path, weights_only=False)",
        "os.system('ls')",
    ],
)
def test_eval_pickle_and_shell_calls_are_found(source):
    assert len(code_faults(ast.parse(source))) == 1


def test_safe_relatives_are_not_confused_with_it():
    source = "import pickle\nmodel.eval()\nyaml.safe_load(x)\nf(x, shell=False)\ntorch.load(p, weights_only=True)"
    assert code_faults(ast.parse(source)) == []


def test_no_folder_has_more_than_16_modules():
    """Folders with one file a method or a corpus aside, which are lists."""
    listed = {"functional", "attention/cores", "corpora"}
    folders = {path.parent for path in MODULES}
    counts = {str(folder.relative_to(PACKAGE)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name for name, count in counts.items() if count > 17} - listed == set()  # with __init__.py
