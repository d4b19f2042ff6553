"""Compare the batched search of text translation with several attentions in the decoder, in one process.

    python benchmarks/search_cores.py                            # 17 tokens, the length of Multi30k
    python benchmarks/search_cores.py --times 17 60 --sentences 4
    python benchmarks/search_cores.py --cores softmax softmax+decoder_xl softmax+decoder_xl+cross_xl --times 17 60 300
    python benchmarks/search_cores.py --cores softmax softmax+number_of_heads/8 softmax+heads/group softmax+heads/subset

Prints a Markdown table of ratios to `softmax`. The decoder is that of `model/mt_mini` with random weights, larger than
initial ones so that hypotheses differ; sources are random encoder outputs of 0.85 T to T positions, and every
hypothesis has about T tokens, because random inputs do not say where to end. measuring.py describes how time is
measured. CORE+NAME adds a memory, conf/memory/NAME.yaml, in segments of `--segment` tokens, and CORE+FOLDER/NAME
another fragment of conf. With head selection there are two languages, and all sentences are of the first.
"""

import argparse
from collections.abc import Callable

import measuring
import results
import torch
from torch import nn

from espnet_diverse.registration import fast_start

CORES = ("softmax", "lambda_attention", "random_features", "luna")
CPU = torch.device("cpu")


def main(argv: list[str] | None = None) -> None:
    """Measure and print the table."""
    args = _arguments(argv)
    fast_start()
    measuring.keep_memory(args)
    conditions = measuring.conditions(f"ratios of medians of {args.repeats} rounds", CPU)
    print(*conditions, sep="\n", flush=True)
    decoders = {core: decoder_of(core, args.vocabulary, args.segment) for core in args.cores}
    rows = []
    for time in args.times:
        calls = {core: search_of(decoder, time, args) for core, decoder in decoders.items()}
        measured = measuring.compare(calls, args.repeats, CPU, memory=False)
        rows.append(results.Row("A search of text translation", f"{args.sentences}, {time}", measured))
    results.finish(args, conditions, results.show(rows, "B, T", memory=False))


def decoder_of(name: str, vocabulary: int, segment: int) -> nn.Module:
    """A decoder with one core in self-attention and cross-attention, and what follows it in `name`."""
    from espnet_diverse.nets.decoder import DiverseTransformerDecoder
    from espnet_diverse.runs.config import merge

    core, *others = name.split("+")
    fragments = [each if "/" in each else f"memory/{each}" for each in others]
    options = merge(["model/mt_mini", f"attention/{core}", *fragments])
    for part in {"memory", "cross_memory"} & options["decoder_conf"].keys():
        options["decoder_conf"][part]["segment"] = segment
    if selection := options["decoder_conf"]["attention"].get("selection"):
        selection["conditions"] = {"tgtlang": ["de", "fr"]}
    torch.manual_seed(0)
    decoder = DiverseTransformerDecoder(vocabulary, options["encoder_conf"]["output_size"], **options["decoder_conf"])
    for parameter in decoder.parameters():
        if parameter.dim() > 1:
            parameter.data *= 2
    return decoder.eval()


def search_of(decoder: nn.Module, time: int, args: argparse.Namespace) -> Callable[[], None]:
    """A beam search from random sources of `time` positions."""
    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.decoding.search.beam_search import BeamSearch
    from espnet_diverse.scope import scope

    vocabulary = decoder.output_layer.out_features
    search = BeamSearch(decoder, None, vocabulary - 1, of_text=True)
    torch.manual_seed(1)
    source = torch.randn(args.sentences, time, decoder.output_layer.in_features)
    lengths = torch.linspace(time, 0.85 * time, args.sentences).round().long()
    options = SearchOptions(beam_size=args.beam_size, ctc_weight=0.0, lm_weight=0.0, minlenratio=1.0, maxlenratio=1.0)

    def call() -> None:
        with scope({"tgtlang": torch.zeros(1, dtype=torch.long)}):
            search(source, lengths, options)

    return call


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", nargs="+", default=CORES, help=f"attentions; the first is 1 ({' '.join(CORES)})")
    parser.add_argument("--segment", type=int, default=8, help="tokens of a segment of memories (8)")
    parser.add_argument("--sentences", type=int, default=16, help="sentences of a batch (16)")
    parser.add_argument("--times", type=int, nargs="+", default=[17], help="tokens of the longest sentence (17)")
    parser.add_argument("--vocabulary", type=int, default=6000, help="number of tokens (6000)")
    parser.add_argument("--beam_size", type=int, default=5, help="hypotheses in a beam (5)")
    parser.add_argument("--repeats", type=int, default=7, help="rounds (7)")
    measuring.add_keep_memory(parser)
    results.add_arguments(parser)
    return results.parsed(parser, argv)


if __name__ == "__main__":
    main()
