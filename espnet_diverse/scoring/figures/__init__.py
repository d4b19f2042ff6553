"""Pictures and pages of scores.

`forest_plot` draws rows of points with intervals; `score_plots` draws the rows of a score table and of a RESULTS.md.
Scores themselves are computed by `scoring`.
"""
