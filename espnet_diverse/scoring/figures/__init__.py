"""Pictures and pages of scores.

Read first: `forest_plot.py`, `score_plots.py`, `alignment_page.py`.
It computes no score; see `scoring`.
"""
