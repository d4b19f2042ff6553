"""Analysis of the heads of a trained model: measures over a data directory, figures, one HTML report.

Read first: `measurements.py` (one pass over the data), `collect.py` (what attentions compute), `report.py`.
It changes no model; scores of decoded text come from `scoring`.
"""
