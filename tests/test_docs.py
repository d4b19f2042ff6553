"""Statements of the pages of docs/ and of CONTRIBUTING.md: names exist, commands parse, tables are complete."""

import argparse
import ast
import importlib.util
import re
import shlex
import sys
from functools import cache

import pytest
import test_layers
import yaml
from references.markdown import ROOT, blocks, lines, recipe_lines, run, unfenced
from references.recipes import planned

from espnet_diverse.attention import CORES, build_attention, registry
from espnet_diverse.bin.main import COMMANDS, command_parser
from espnet_diverse.conditions import CONDITIONS

DOCS = ROOT / "docs"
PAGES = {page.stem: page for page in sorted(DOCS.glob("*.md"))}
ALL = [*PAGES.values(), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FRAGMENTS = {f"{path.parent.name}/{path.stem}" for path in (ROOT / "conf").glob("*/*.yaml")}
PROSE = [ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "egs").glob("**/README.md"))]
PROSE += sorted((ROOT / "egs").glob("*/*/RESULTS.md"))
EXAMPLES = {"attention/cosine", "count"}  # added by CONTRIBUTING.md in its worked examples

each_page = pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)


def text(name):
    return PAGES[name].read_text(encoding="utf-8")


def first_column(markdown):
    """Everything in backquotes in the first cell of each row of a table, one list a row."""
    rows = re.findall(r"^\| ([^|]*)\|", markdown, flags=re.MULTILINE)
    return [found for row in rows if (found := re.findall(r"`([^`]+)`", row))]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with --strict in 20 seconds: a link, an anchor or a name that leads nowhere is an error.

    The extra test includes what this needs, so that it is never skipped. With --quiet no warning would be counted.
    """
    folder = tmp_path_factory.mktemp("site")
    done = run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.recipes
def test_the_site_has_the_help_of_every_command(site):
    overview = (site / "commands.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        html = (site / "commands" / f"{name}.html").read_text(encoding="utf-8")
        assert f'<a href="commands/{name}.html"><code>{name}</code></a>' in overview, name
        assert f"usage: espnet-diverse {name} " in html and "Guide: <a href=" in html, name


@pytest.mark.recipes
def test_the_site_shows_docstrings_and_options(site):
    reference = (site / "api" / "attention.html").read_text(encoding="utf-8")
    assert 'id="espnet_diverse.attention.build_attention"' in reference
    assert build_attention.__doc__.splitlines()[0].partition("`")[0] in reference
    attentions = (site / "attentions.html").read_text(encoding="utf-8")
    for option in ("n_clusters_z", "lambda_q"):
        assert f"Options.{option}" in attentions


@pytest.mark.recipes
def test_the_site_fetches_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="(https?:)?//', page.read_text(encoding="utf-8"))
        assert not loaded, page


def test_every_subpackage_has_a_page_of_the_reference():
    shown = {
        name
        for page in (DOCS / "api").glob("*.md")
        for name in re.findall(r"^::: espnet_diverse\.(\w+)", page.read_text(), flags=re.MULTILINE)
    }
    parts = {test_layers.part(path) for path in test_layers.MODULES} - {"__init__", "__main__"}
    assert parts - shown == {"bin", "demo", "serve"}  # whose reference is --help
    assert shown <= parts


def test_the_architecture_has_the_layers_of_the_test():
    drawn = text("architecture").split("## Layers")[1].split("## Conventions")[0]
    layers, beside = drawn.split("Subpackages beside them")
    assert [set(row) for row in first_column(layers)] == test_layers.LAYERS
    assert [set(row) for row in first_column(beside)] == test_layers.BESIDE
    exception = re.search(r"`attention` may import only ((?:`\w+`(?: and )?)+) of\s", beside)
    assert "every layer from `nets` up may import them." in beside
    assert set(re.findall(r"`(\w+)`", exception[1])) == test_layers.ATTENTION_BESIDE
    may = re.findall(r"^\| (`.*?) \|.*\| (yes|no) \|$", layers, flags=re.MULTILINE)
    assert {
        room for rooms, answer in may if answer == "yes" for room in re.findall(r"`(\w+)`", rooms)
    } == test_layers.ESPNET


def test_the_glossary_is_sorted_and_has_no_term_twice():
    terms = re.findall(r"^\| ([^|`]+) \| .+ \|$", text("architecture").split("## Glossary")[1], flags=re.MULTILINE)[1:]
    assert 20 <= len(terms) <= 30
    assert [term.casefold() for term in terms] == sorted({term.casefold() for term in terms})


@cache
def files():
    folders = ("espnet_diverse", "tests", "benchmarks", "examples", "docs", "conf", "egs")
    paths = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.*")]
    return [f"/{path}" for path in (*paths, *(path.name for path in ROOT.iterdir()))]


@each_page
def test_files_that_are_named_exist(page):
    kept = "\n".join(line for line in page.read_text(encoding="utf-8").splitlines() if " new: " not in line)
    named = re.findall(r"`([\w./]+\.(?:py|md|txt|sh))(?:::\w+)?`", re.sub(r"```.*?```", "", kept, flags=re.DOTALL))
    written = {"README.md", "RESULTS.md", "score.md", "alignment.txt", "run.sh", "nonfinite_batches.txt"}
    for name in set(named) - written:
        assert any(path.endswith(f"/{name}") for path in files()), name


@pytest.mark.parametrize("page", [*ALL, *PROSE], ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_have_at_most_120_characters(page):
    """Rows of tables, blocks of code and commands may have more."""
    assert [line for line in unfenced(page) if len(line) > 120 and line[:1] not in ("|", "`", " ")] == []


@pytest.mark.parametrize("page", [*ALL, *PROSE], ids=lambda page: str(page.relative_to(ROOT)))
def test_decimals_begin_with_a_digit(page):
    """0.7 and not .7, apart from blocks of code and names of files."""
    assert [line for line in unfenced(page) if re.search(r"(?<![\w.*/`~$)\]:])\.\d", line)] == []


@each_page
def test_fragments_that_are_named_exist(page):
    kinds = "|".join({fragment.split("/")[0] for fragment in FRAGMENTS})
    named = re.findall(rf"(?<![\w./])((?:{kinds})/[a-z]\w+)(?![\w./*])", page.read_text(encoding="utf-8"))
    assert set(named) - FRAGMENTS - EXAMPLES - {"decode/test"} == set()


@pytest.mark.parametrize("page", [*ALL, *PROSE], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page):
    for line in lines(page):
        if line.startswith("espnet-diverse ") and line != "espnet-diverse --help" and " $" not in line:
            _, name, *words = shlex.split(line)
            if name not in EXAMPLES:
                command_parser(name)[1].parse_intermixed_args(words)


def parses(name, words):
    """Return whether a command takes these words; options may stand alone, without any required argument."""
    parser = command_parser(name, argparse.ArgumentParser)[1]  # whose errors end with 2
    if len(words) == 1 and words[0].startswith("--"):  # an option by its name alone
        return words[0] in parser._option_string_actions
    required = [action for action in parser._actions if action.required]
    try:
        for action in required:
            action.required = False
        given, _ = parser.parse_known_intermixed_args(words)
        for action in required:
            action.required = any(getattr(given, each.dest) != each.default for each in required)
        parser.parse_intermixed_args(words)
    except SystemExit as end:
        return end.code != 2  # --help ends too
    return True


def of_others():
    """Our commands in the tables for users of other programs: page, command (None for an option), and its words."""
    for page, path in PAGES.items():
        rows = re.findall(r"^\| (.*) \| (.*) \|$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for theirs, ours in rows if page.startswith("from_") else ():
            same = re.findall("`(--[^`]+)`", theirs) if ours.startswith("the same") else []
            for code in [*re.findall("`([^`]+)`", ours), *same]:
                name, *words = shlex.split(code.removeprefix("espnet-diverse "))
                if code.startswith("--"):
                    yield page, None, [name, *words]
                elif name in COMMANDS or code.startswith("espnet-diverse ") or name.endswith("run.sh") and words:
                    yield page, name, words


def test_options_in_tables_of_results_parse():
    """The first cells of a table that is headed `| options of `COMMAND` |`; "none" is no option."""
    tables = re.findall(
        r"^\| options of `(\w+)` \|.*\n\|[-|]+\n((?:\|.*\n)+)", "".join(map(text, PAGES)), flags=re.MULTILINE
    )
    rows = [(name, code) for name, table in tables for codes in first_column(table) for code in codes[:1]]
    assert len(rows) >= 3 and all(parses(name, shlex.split(code)) for name, code in rows), rows


def test_the_tables_for_users_of_other_programs_are_read():
    assert len({page for page, _, _ in of_others()}) == 4 and len(list(of_others())) > 25


@pytest.mark.parametrize(("page", "name", "words"), of_others(), ids=str)
def test_replacements_of_commands_of_other_programs_parse(page, name, words, tmp_path):
    if name is None:
        options_of = {"from_espnet": ("decode", "train"), "from_whisper": ("transcribe",), "from_fairseq": ("train",)}
        assert any(parses(command, words) for command in options_of[page])
    elif name.endswith("run.sh") and words == ["--help"]:
        assert run([ROOT / "egs/aishell/asr1/run.sh", *words]).returncode == 0
    elif name.endswith("run.sh"):
        assert planned("egs/aishell/asr1", shlex.join(["./run.sh", *words]), tmp_path)
    else:
        assert parses(name, words)


@each_page
def test_make_targets_exist(page):
    targets = re.findall(r"`?make ([a-z]+)\b(?:`|   )", page.read_text(encoding="utf-8"))
    if targets:
        done = run(["make", "-n", *sorted(set(targets))])
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("folder", "line"), [call for page in PAGES.values() for call in recipe_lines(page)])
def test_recipe_commands_plan(folder, line, tmp_path):
    assert "espnet-diverse" in planned(folder, line, tmp_path)


def test_every_command_is_in_the_table_of_commands():
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| (`.+`) \|$", text("commands"), flags=re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`([\w-]+)`", row)) == sorted(COMMANDS)


def test_every_recipe_is_in_the_table_of_recipes():
    table = text("recipes").split("## Run one")[0]
    on_disk = {str(path.parent.relative_to(ROOT / "egs")) for path in (ROOT / "egs").glob("*/*/run.sh")}
    assert {name for row in first_column(table) for name in row} == on_disk


def test_every_folder_of_fragments_is_explained():
    (table,) = re.findall(r"^\| folder of `conf/`.*?\n\n", text("recipes"), flags=re.MULTILINE | re.DOTALL)
    named = {name for row in first_column(table) for name in row} - {"conf/"}
    assert named == {fragment.split("/")[0] for fragment in FRAGMENTS}


def test_the_conditions_match_the_code():
    table = text("conditions").split("A part of the model")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(--\w+)` \|", table, flags=re.MULTILINE)
    assert rows == [(name, f"utt2{name}", condition.option) for name, condition in CONDITIONS.items()]


@pytest.mark.parametrize("stem", CORES)
def test_every_attention_is_explained(stem):
    page = text("attentions")
    assert re.search(rf"^\| `{stem}` \|", page, flags=re.MULTILINE)
    (section,) = re.findall(rf"^## {stem}\n(.*?)(?=^## )", page, flags=re.MULTILINE | re.DOTALL)
    assert "```text" in section  # the equations
    for told in (r"\*\*Softmax-equivalent setting\*\*", r"\*\*Cost\*\*", r"\(\d+\)", r"20\d\d|the SDMA paper"):
        assert re.search(told, section), told


def test_the_extras_match_setup():
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    (extras,) = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "extras_require"
    ]
    section = text("install").split("## Extras")[1].split("## CPU")[0]
    assert {name for row in first_column(section) for name in row} == {key.value for key in extras.keys}


def test_the_configuration_of_the_attentions_builds():
    from espnet_diverse.nets import DECODERS, ENCODERS

    (block,) = blocks(PAGES["choose"], "yaml")
    config = yaml.safe_load(block)
    encoder = ENCODERS[config["encoder"]](80, **config["encoder_conf"])
    decoder = DECODERS[config["decoder"]](10, encoder.output_size(), **config["decoder_conf"])
    assert encoder.encoders[0].self_attn.core.options.scale_s == "anneal"  # of the preset
    assert type(decoder.decoders[0].src_attn.core).__name__ == "SMA"


def test_the_head_selection_of_the_page_is_possible():
    from espnet_diverse.attention.build import PARTS

    (block,) = blocks(PAGES["conditions"], "yaml")
    for section in yaml.safe_load(block).values():
        selection = section["attention"]["selection"]
        names = {condition: ["a", "b"] for condition in selection["by"]}
        assert PARTS["selection"](selection | {"conditions": names}).strategy in ("group", "subset")


def load(source, path):
    """The module that a block of code is."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_core_of_the_page_takes_means(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(registry, "_registered", {})

    (block,) = [block for block in blocks(PAGES["choose"], "python") if "register_core" in block]
    mean = load(block, tmp_path / "mean.py").Mean
    x = torch.randn(2, 5, 8)
    mask = torch.arange(5) < torch.tensor([[[5]], [[3]]])
    module = build_attention("mean", 8, 2).eval()
    assert isinstance(module.core, mean)
    values = module.linear_v(x)
    expected = torch.stack([values[0].mean(0), values[1, :3].mean(0)])
    torch.testing.assert_close(module(x, x, x, mask), module.linear_out(expected).unsqueeze(1).expand(2, 5, 8))
    torch.testing.assert_close(module(x, x, x, None)[0], module(x, x, x, mask)[0])


def test_espnets_search_of_the_page_reads_our_models(tiny_run, tmp_path):
    (block,) = [block for block in blocks(PAGES["from_espnet"], "python") if "speech2text" in block]
    block = block.replace('"exp/mine/', f'"{tiny_run.model_dir}/')
    speech2text = load(block, tmp_path / "block.py").speech2text
    assert type(speech2text.asr_model).__name__ == "DiverseASRModel"


def test_the_training_loop_of_the_page_trains_and_counts_updates(tmp_path):
    (block,) = [block for block in blocks(PAGES["choose"], "python") if "total_loss" in block]
    done = load(block, tmp_path / "loop.py")
    assert done.task_loss < done.loss < float("inf") and set(done.shared.losses()) >= {"kl_z", "head_mi"}
    count, x = done.attention.core.updates, done.x.detach()
    fused = done.torch.optim.Adam(done.attention.parameters(), fused=True)
    for raised, expected in ((False, 3), (True, 3), (True, 4)):  # the first one counts the last step of the loop
        done.attention(x, x, x, None).sum().backward()
        assert float(count.count) == expected
        fused.step()
        if raised:
            done.torch.autograd.graph.increment_version(list(done.attention.parameters()))
