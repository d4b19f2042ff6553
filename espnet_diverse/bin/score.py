"""Score hypotheses against references: CER or WER as a Markdown table, score.json, score.md and alignment.txt.

A reference without a hypothesis counts as deleted; the command then names it and ends with exit code 2.
"""

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse score`."""
    parser.add_argument("--reference", required=True, type=Path, help="expected texts, one 'utterance text' a line")
    parser.add_argument("--hypothesis", required=True, type=Path, help="recognised texts, one 'utterance text' a line")
    parser.add_argument("--output_dir", required=True, type=Path, help="directory of the reports")
    parser.add_argument("--unit", default="char", help="char (CER) or word (WER) (default: char)")
    parser.add_argument("--count_spaces", action="store_true", help="count a space as a character (CER)")
    parser.add_argument("--name", help="name of the table row (default: the last two folders of the hypothesis file)")
    parser.add_argument(
        "--results", type=Path, help="RESULTS.md whose table takes the row too, in place of an older one"
    )


def run(args: argparse.Namespace) -> int:
    """Score, write the three reports, print the table; 2 where hypotheses are missing, else 0."""
    import json

    from espnet_diverse.corpora.files import write_text
    from espnet_diverse.corpora.kaldi import read_table
    from espnet_diverse.scoring.error_rate import abridge, error_rate
    from espnet_diverse.scoring.table import table, update_results

    references = read_table(args.reference, "reference")
    hypotheses = read_table(args.hypothesis, "hypothesis")
    result = error_rate(references, hypotheses, args.unit, ignore_spaces=not args.count_spaces)
    name = args.name or "/".join(args.hypothesis.resolve().parent.parts[-2:])
    markdown = table({name: result})
    notes = [result.signature]
    if result.missing:
        notes.append(
            f"{len(result.missing)} of {result.sentences} references have no hypothesis and count as deleted: "
            f"{abridge(result.missing)}"
        )
    summary = {"name": name, "reference": str(args.reference), "hypothesis": str(args.hypothesis), **result.to_dict()}
    args.output_dir.mkdir(parents=True, exist_ok=True)
    write_text(args.output_dir / "alignment.txt", "\n".join(map(str, result.alignments)))
    write_text(args.output_dir / "score.md", "\n".join([markdown, *(f"{note}\n" for note in notes)]))
    write_text(args.output_dir / "score.json", json.dumps(summary, ensure_ascii=False, indent=2) + "\n")
    if args.results:
        update_results(args.results, f"### {'CER' if args.unit == 'char' else 'WER'}", {name: result})
    print(markdown, end="")
    print(*notes, sep="\n", file=sys.stderr)
    return 2 if result.missing else 0
