"""Draws spectrograms of made-up words: bands of frequency over time, as from a microphone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BANDS, FRAMES = 32, 40
# A word is syllables: start and end of two formants (in bands), and the syllable's length (in frames).
WORDS: dict[str, tuple[tuple[float, float, float, float, int], ...]] = {
    "halt": ((6, 6, 14, 20, 9), (4, 8, 24, 24, 6)),
    "links": ((10, 10, 22, 16, 7), (8, 3, 28, 22, 9)),
    "rechts": ((4, 12, 18, 26, 10), (12, 12, 26, 26, 5)),
    "vor": ((3, 3, 9, 9, 16),),
    "weiter": ((12, 5, 20, 13, 6), (5, 9, 13, 20, 6), (9, 9, 20, 20, 6)),
    "zurueck": ((14, 14, 28, 28, 4), (5, 5, 19, 19, 8), (10, 3, 24, 15, 6)),
}
CLASSES = (*WORDS, "something else")


def draw(kind: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """[BANDS, FRAMES] of a word of CLASSES; the last: noise, or syllables that are no word."""
    if kind < len(WORDS):
        syllables = [*WORDS.values()][kind]
    else:
        ends = rng.uniform(3, 28, (rng.integers(0, 4), 4))
        syllables = tuple((*(float(end) for end in row), int(rng.integers(4, 12))) for row in ends)
    energy = np.zeros((BANDS, FRAMES))
    speed, shift, at = rng.uniform(0.85, 1.2), rng.uniform(-1.5, 1.5), rng.uniform(4, 12)
    bands = np.arange(BANDS)[:, None]
    for first_start, first_end, second_start, second_end, length in syllables:
        frames = np.arange(FRAMES)[None, :]
        part = (frames - at) / (length * speed)
        loud = rng.uniform(0.7, 1.0) * np.clip(np.minimum(part, 1 - part) * 8, 0, 1)
        for start, end, weight in ((first_start, first_end, 1.0), (second_start, second_end, 0.7)):
            centre = start + (end - start) * part + shift
            energy += weight * loud * np.exp(-(((bands - centre) / 1.4) ** 2))
        at += (length + rng.uniform(0.5, 2.0)) * speed
    hiss = rng.uniform(0.1, 0.7) * np.abs(rng.normal(size=energy.shape)) * np.linspace(1.0, 0.5, BANDS)[:, None]
    decibels = 20 * np.log10(np.maximum(energy + hiss, 1e-2))
    return np.clip((decibels + 40) / 42 * 255, 0, 255).astype(np.uint8)
