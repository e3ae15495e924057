"""Matrices in few cells, and cells in levels of a colour."""

import math
from collections.abc import Callable

import numpy as np

LEVELS = 9  # of a colour, from light to dark


def coarse(matrix: np.ndarray, most: int, size: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, int, int]:
    """Return a matrix in at most `most` rows and columns, and how many rows and columns each cell stands for.

    A cell is the entry of several whose `size` is the largest; nan counts as the largest.
    """
    rows, columns = (max(1, math.ceil(n / most)) for n in matrix.shape)
    cells = np.array([
        [_largest(matrix[r : r + rows, c : c + columns], size) for c in range(0, matrix.shape[1], columns)]
        for r in range(0, matrix.shape[0], rows)
    ])  # fmt: skip
    return cells, rows, columns


def _largest(part: np.ndarray, size: Callable[[np.ndarray], np.ndarray]) -> float:
    flat = part.reshape(-1)
    return float(flat[int(np.argmax(size(flat)))])


def ends(cells: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest finite entry, zeros where there is none."""
    finite = cells[np.isfinite(cells)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def levels(cells: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the level of each cell between two ends, from 0 to LEVELS - 1; -1 where it is not finite."""
    known = np.isfinite(cells)
    half = high / 2 - low / 2  # the whole may be beyond float64
    share = (np.where(known, cells, low) / 2 - low / 2) / (half or 1.0)
    return np.where(known, np.clip((share * LEVELS).astype(int), 0, LEVELS - 1), -1)
