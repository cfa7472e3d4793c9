"""What a customer of the demo shop puts into an order.

Products differ in popularity. The category of the first product that a customer ever buys is the
favourite category: from then on a line is from it with probability LOYAL and from the whole shop
otherwise, in both cases by popularity. Lines are drawn independently given the favourite, so the
products that the next lines most likely name are those with the largest chance of one line,
whatever the number of lines, and before the first order that is popularity itself.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LOYAL = 0.8
SPREAD = 0.7  # of the logarithm of popularity


@dataclass(frozen=True)
class Taste:
    """Popularity of P products and their categories.

    Attributes:
        category: (P,) numbers from 0.
        popularity: (P,) chance of a line that is from the whole shop; they sum to 1.
    """

    category: Ints
    popularity: Floats

    @classmethod
    def draw(cls, category: Ints, rng: np.random.Generator) -> "Taste":
        """Popularities that have nothing to do with the categories."""
        weight = rng.lognormal(0.0, SPREAD, len(category))
        return cls(category, weight / weight.sum())

    def lines(self, favourite: Ints, rng: np.random.Generator) -> Ints:
        """A product for each line of customers with these favourites, -1 where there is none."""
        is_loyal = (rng.random(len(favourite)) < LOYAL) & (favourite >= 0)
        begin = np.where(is_loyal, self._edges[favourite], 0.0)
        end = np.where(is_loyal, self._edges[favourite + 1], 1.0)
        place = np.searchsorted(self._cumulated, begin + rng.random(len(favourite)) * (end - begin))
        product: Ints = self._by_category[np.minimum(place, len(self.category) - 1)]
        return product

    def chances(self, favourite: Ints) -> Floats:
        """(C, P) the exact chance of a line for each product."""
        whole = np.broadcast_to(self.popularity, (len(favourite), len(self.popularity)))
        of_category = np.bincount(self.category, self.popularity)
        inside = np.where(
            self.category == favourite[:, None], self.popularity / of_category[self.category], 0.0
        )
        return np.where(favourite[:, None] >= 0, (1 - LOYAL) * whole + LOYAL * inside, whole)

    @cached_property
    def _by_category(self) -> Ints:
        return np.argsort(self.category, kind="stable")

    @cached_property
    def _cumulated(self) -> Floats:
        return np.cumsum(self.popularity[self._by_category])

    @cached_property
    def _edges(self) -> Floats:
        """Where each category begins among the cumulated popularities, and where the last ends."""
        sizes = np.bincount(self.category, self.popularity)
        return np.concatenate([[0.0], np.cumsum(sizes)])
