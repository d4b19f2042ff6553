"""Re-exports of `espnet2.legacy`: layers, beam search and scorers, under ESPnet's names.

- `layers`: attention, encoder and decoder layers, subsampling, positions, losses.
- `search`: beam search and scorers.
- `ngram`: the scorer that needs kenlm.

ESPnet has moved these modules once and may move them again; the rest of the package imports them from here, so that a
move changes this folder alone. ESPnet's tasks, inference classes and training (`espnet2.*` without `legacy`) are
imported where they are used, and its tables of classes are changed in `registration` alone.
"""
