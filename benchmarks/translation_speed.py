"""Speed and BLEU of a trained model of text translation: with a shortlist and without, and in CTranslate2.

    espnet-diverse shortlist --data_dir DATA/train --tokens_dir DATA/tokens --output lex.s2t
    python benchmarks/translation_speed.py MODEL DATA/test --shortlist lex.s2t
    python benchmarks/translation_speed.py MODEL DATA/test --shortlist lex.s2t --ctranslate2   # pip install ctranslate2

Every contestant translates the same texts, sorted by length, one by one and in batches, in one process and in turns.
The table has the tokens of the translations for a second, how many times as fast as ours in float32 without a shortlist
that is, BLEU, and how many translations are the same as those of that contestant.

CTranslate2 gets the weights of the model, which must be a transformer with softmax attention and `normalize_before`.
Its scores are divided by the number of tokens to the power of `--length_penalty`, as ours; a batch has the greatest
length of its longest text.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
from measuring import compare, conditions

from espnet_diverse.registration import fast_start

BASE = "ours float32"
Translate = Callable[[int], list[tuple[str, int]]]
"""Translates all texts in batches of a size: the translation of each, and its number of tokens with <sos/eos>."""


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    args = _arguments(argv)
    fast_start()
    lines = conditions(f"medians of {args.rounds} rounds", torch.device("cpu"), args.threads)
    sources, references = read(args.data_dir, args.sentences)
    print("\n".join(lines), f"\n{len(sources)} sentences, beam {args.beam_size}.\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        loaded = dict(contestants(args, sources, Path(folder)))
    print("| | tokens a second | times as fast | BLEU | same |\n|---|---|---|---|---|", flush=True)
    for batch in args.batches:
        found: dict[str, list[tuple[str, int]]] = {}
        calls = {name: partial(_keep, found, name, partial(call, batch)) for name, call in loaded.items()}
        measured = compare(calls, args.rounds, torch.device("cpu"), memory=False)
        for name, times in measured.items():
            times.amount = sum(count for _, count in found[name])
        for name, times in measured.items():
            texts, base = ([text for text, _ in found[each]] for each in (name, BASE))
            faster, same = measured[BASE].cost / times.cost, sum(map(str.__eq__, texts, base))
            cells = [f"{name}, {batch} at once", f"{1 / times.cost:.0f}", f"{faster:.2f}"]
            print(f"| {' | '.join(cells)} | {bleu(texts, references):.2f} | {same} |", flush=True)


def _keep(found: dict[str, list[tuple[str, int]]], name: str, call: Callable[[], list[tuple[str, int]]]) -> None:
    found[name] = call()


def read(data_dir: Path, count: int) -> tuple[list[str], list[str]]:
    """The source texts, shortest first, and their references."""
    from espnet_diverse.data.tables import read_table

    texts = read_table(data_dir / "text")
    pairs = [(source, texts[name]) for name, source in read_table(data_dir / "src_text").items()][:count]
    pairs.sort(key=lambda pair: len(pair[0]))
    return [source for source, _ in pairs], [reference for _, reference in pairs]


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU of sacrebleu."""
    from sacrebleu import corpus_bleu

    return corpus_bleu(list(texts), [list(references)]).score


def contestants(args: argparse.Namespace, sources: Sequence[str], folder: Path) -> Iterator[tuple[str, Translate]]:
    """The contestants by name; the first is `BASE`."""
    for precision in args.precisions:
        yield f"ours {precision}", ours(args, sources, precision, None)
        for best in args.shortlist_best if args.shortlist is not None else ():
            yield f"ours {precision}, shortlist of {best}", ours(args, sources, precision, args.shortlist, best)
    for precision in args.precisions if args.ctranslate2 else ():
        yield f"CTranslate2 {precision}", theirs(args, sources, precision, folder)


def ours(
    args: argparse.Namespace, sources: Sequence[str], precision: str, shortlist: Path | None, best: int | None = None
) -> Translate:
    """Our search, with the `best` translations of each source token in the shortlist."""
    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.decoding.predictor import load_predictor
    from espnet_diverse.decoding.search.fusion import Fusion

    options = SearchOptions(beam_size=args.beam_size, length_penalty=args.length_penalty, shortlist_best=best)
    search = load_predictor(args.model, options=options, precision=precision, fusion=Fusion(shortlist=shortlist))
    values = dict.fromkeys(search.conditions.names, 0)

    def run(batch: int) -> list[tuple[str, int]]:
        found = []
        for start in range(0, len(sources), batch):
            read = [search.read(source)[0] for source in sources[start : start + batch]]
            first = [texts[0] for texts in search.batch(read, [values] * len(read))]
            found += [(text.text, len(text.tokens) + 1) for text in first]
        return found

    return run


def theirs(args: argparse.Namespace, sources: Sequence[str], kind: str, folder: Path) -> Translate:
    """CTranslate2 with the same weights and tokens."""
    try:
        package = import_module("ctranslate2")
    except ImportError:
        sys.exit("--ctranslate2 needs CTranslate2: pip install 'espnet_diverse[ctranslate2]'")
    from ctranslate2_model import write

    from espnet_diverse.decoding.source_text import SourceText
    from espnet_diverse.decoding.token_text import TokenText
    from espnet_diverse.runs.tasks import load_model

    model, options = load_model(args.model, task="mt")
    tokens, source_text = TokenText(options), SourceText(options)
    if not any(folder.iterdir()):
        write(model.eval(), options, folder)
    translator = package.Translator(str(folder), compute_type=kind, inter_threads=1, intra_threads=args.threads)
    search = {"beam_size": args.beam_size, "length_penalty": args.length_penalty}

    def run(batch: int) -> list[tuple[str, int]]:
        found = []
        for start in range(0, len(sources), batch):
            read = [source_text(source, False).tolist() for source in sources[start : start + batch]]
            names = [[options.src_token_list[index] for index in each] for each in read]
            longest = 2 * max(map(len, names)) + 10
            best = [
                one.hypotheses[0] for one in translator.translate_batch(names, max_decoding_length=longest, **search)
            ]
            found += [(tokens.decode(tokens.indices(each), 0.0).text, len(each) + 1) for each in best]
        return found

    return run


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="directory of a run of task mt")
    parser.add_argument("data_dir", type=Path, help="data directory with src_text and text")
    parser.add_argument("--shortlist", type=Path, help="lexical table, from espnet-diverse shortlist")
    parser.add_argument("--shortlist_best", type=int, nargs="*", default=[100], help="translations of a token (100)")
    parser.add_argument("--ctranslate2", action="store_true", help="measure CTranslate2 as well")
    parser.add_argument("--precisions", nargs="*", default=["float32", "int8"], choices=("float32", "int8"))
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32], help="texts in a batch (1 32)")
    parser.add_argument("--beam_size", type=int, default=5, help="hypotheses in a beam (5)")
    parser.add_argument("--length_penalty", type=float, default=1.0, help="exponent of the number of tokens (1)")
    parser.add_argument("--sentences", type=int, default=1000, help="number of texts (1000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    if args.precisions[:1] != ["float32"]:
        parser.error("float32 comes first in --precisions: the others are compared with it")
    return args


if __name__ == "__main__":
    main()
