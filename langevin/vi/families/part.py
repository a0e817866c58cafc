r"""A family of some arrays of a position, chosen by their paths, while the others stay where they are.

    q(θ) = q_φ(θ_part) δ(θ_rest − μ_rest).

"Last layer" methods are this: `Part(FullRank(), ("net.layers.2.*",))`. It has no density over all of the position, so
neither weights nor k̂ are known.

References
----------
Daxberger, Kristiadi, Immer, Eschenhagen, Bauer & Hennig (2021), Laplace redux: effortless Bayesian deep learning, §2.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import record, static
from langevin.core.types import PyTree
from langevin.vi.family import HasEntropy, HasMoments, check_family


class Held(NamedTuple):
    """φ: that of the family over a list of the chosen arrays, and the position, whose other arrays count."""

    inner: PyTree
    position: PyTree


@record
class Part:
    """A family over the arrays whose paths match; the others stay.

    family: of the chosen arrays.
    part: patterns of paths, such as "net.layers.2.*".
    """

    family: Any
    part: tuple[str, ...] = static()

    def __post_init__(self):
        if isinstance(self.part, str):
            raise ValueError(f"Part: part is {self.part!r}; it must be a tuple of patterns: ({self.part!r},).")

    def init(self, key, position):
        return Held(self.family.init(key, self.chosen(position)), position)

    def sample(self, key, params):
        return self.merged(self.family.sample(key, params.inner), params.position)

    def entropy(self, params):
        check_family(self.family, HasEntropy, "Part.entropy")
        return self.family.entropy(params.inner)

    def mean(self, params):
        check_family(self.family, HasMoments, "Part.mean")
        return self.merged(self.family.mean(params.inner), params.position)

    def variance(self, params):
        check_family(self.family, HasMoments, "Part.variance")
        return self.merged(self.family.variance(params.inner), jax.tree.map(jnp.zeros_like, params.position))

    def marks(self, position) -> list[bool]:
        """Which arrays are chosen."""
        found = [any(fnmatch(name, p) for p in self.part) for name in tree.names(position)]
        if not any(found):
            raise ValueError(f"Part: no array matches {self.part}; there are {', '.join(tree.names(position)[:8])} …")
        return found

    def chosen(self, position) -> list[Any]:
        return [u for u, here in zip(jax.tree.leaves(position), self.marks(position), strict=True) if here]

    def merged(self, part, position):
        """The position with its chosen arrays in place of its own."""
        leaves, structure = jax.tree.flatten(position)
        new = iter(part)
        return jax.tree.unflatten(
            structure, [next(new) if here else u for u, here in zip(leaves, self.marks(position), strict=True)]
        )
