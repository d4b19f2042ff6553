"""Linformer's equation (7) as naive loops in double precision, for one head and one sequence.

Arrays are NumPy float64. Letters: T frames, M width, D width of a head, R compressed rows.
"""

import numpy as np

from references.sdma import attention


def project_time(projection, x, length):
    """E X over the first `length` of T frames: projection (R, T_max), x (T, M) -> (R, M)."""
    result = np.zeros((len(projection), x.shape[1]))
    for row in range(len(projection)):
        for frame in range(length):
            result[row] += projection[row, frame] * x[frame]
    return result


def head(query, x, length, time_k, time_v, key, value):
    """(7): query (T, D), x (T, M), time_k and time_v (R, T_max), key and value (weight (D, M), bias (D,)) -> (T, D)."""
    k, v = (
        np.array([weight @ row + bias for row in project_time(projection, x, length)])
        for projection, (weight, bias) in ((time_k, key), (time_v, value))
    )
    return attention(query, k) @ v
