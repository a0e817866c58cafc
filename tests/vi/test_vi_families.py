"""Families: densities, entropies and moments are those of the draws; mutants are caught."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from vi.checks import (
    POSITION,
    SIZE,
    check_entropy,
    check_gaussian,
    check_moments,
    check_pathwise,
    check_plane,
    params_of,
    z_of,
)

from langevin import vi
from langevin.core import noise, tree
from langevin.core.record import record
from langevin.nets.bnn import NormalPrior
from langevin.vi.families.full_rank import factored
from langevin.vi.families.mean_field import log_normal
from langevin.vi.families.singular import divergence
from langevin.vi.family import HasLogProb

GAUSSIANS = {
    "mean-field": vi.MeanField(0.5),
    "full-rank": vi.FullRank(0.5),
    "low-rank": vi.LowRank(0.5, rank=3),
    "low-rank-layers": vi.LowRank(0.5, rank=2, scope="layer"),
    "matrix-normal": vi.MatrixNormal(0.5),
    "matrix-normal-rank": vi.MatrixNormal(0.5, rank=2),
}
OTHERS = {
    "mixture": vi.Mixture(vi.MeanField(0.7), components=2, apart=0.3),
    "flow": vi.Flow(0.5, layers=2, width=8),
}


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussian_families_are_their_draws(name, key):
    check_gaussian(GAUSSIANS[name], key)


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gradients_through_draws(name, key):
    check_pathwise(GAUSSIANS[name], key)


@pytest.mark.parametrize("name", OTHERS)
def test_densities_are_normalized(name, key):
    check_plane(OTHERS[name], key)


def test_radial_density_in_two_dimensions(key):
    """A radial density is unbounded at its center in more than one dimension: no grid, but another density inside."""
    family = vi.Radial(0.5)
    position = {"u": jnp.array([0.2, -0.1]), "v": jnp.array([1.0])}
    k_params, k_draw = jax.random.split(key)
    params = params_of(family, k_params, position)
    draws = jax.vmap(family.sample, (0, None))(jax.random.split(k_draw, 6000), params)
    log_q = jax.vmap(family.log_prob, (None, 0))(params, draws)
    # E_q[r/q] = 1 with r ∝ |x|^{-1} e^{-|x|²} around the center of `u`, times a normal for `v`
    draws, params = jax.tree.map(np.asarray, (draws, params))
    x = (draws["u"] - params.mean["u"]) / np.exp(params.log_scale["u"])
    v = (draws["v"] - params.mean["v"]) / np.exp(params.log_scale["v"])
    radius = np.sqrt(np.sum(x**2, axis=1))
    log_r = -(radius**2) - np.log(radius) - np.log(np.pi**1.5) - np.sum(params.log_scale["u"])
    log_r += -np.sum(v**2, axis=1) - 0.5 * np.log(np.pi) - np.sum(params.log_scale["v"])
    assert abs(z_of(np.exp(log_r - log_q), 1.0)) < 5
    check_moments(family, jax.random.key(1))


@pytest.mark.parametrize("name", ["radial", "low-rank", "matrix-normal-rank"])
def test_entropy_has_the_gradient_of_its_definition(name, key):
    check_entropy({"radial": vi.Radial(0.5), **GAUSSIANS}[name], key)


def test_identity_factors_are_mean_field(key):
    """A matrix normal as it begins, with A = B = I, is the factorized Gaussian: draws, density, entropy."""
    matrix, plain = vi.MatrixNormal(0.3), vi.MeanField(0.3)
    k_init, k_draw = jax.random.split(key)
    a, b = (f.init(jax.random.clone(k_init), POSITION) for f in (matrix, plain))
    draw = plain.sample(k_draw, b)
    np.testing.assert_allclose(matrix.log_prob(a, draw), plain.log_prob(b, draw), rtol=1e-5)
    np.testing.assert_allclose(matrix.entropy(a), plain.entropy(b), rtol=1e-5)
    again = matrix.sample(jax.random.clone(k_draw), a)
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, rtol=1e-5, atol=1e-6), again, draw)


def test_mixture_of_one_component_is_it(key):
    one, family = vi.Mixture(vi.MeanField(0.5), components=1), vi.MeanField(0.5)
    params = params_of(one, key)
    inner = jax.tree.map(lambda u: u[0], params.each)
    np.testing.assert_allclose(one.log_prob(params, POSITION), family.log_prob(inner, POSITION), rtol=1e-5)


def test_semi_implicit_density_is_an_upper_estimate(key):
    """The mean of the estimated log q falls to that of the exact one as more mixing draws are taken."""
    k_params, k_draw = jax.random.split(key)
    params = params_of(vi.SemiImplicit(2, 4, others=0, scale=0.3), k_params, apart=0.4)
    found = []
    for others in (0, 3, 300):
        family = vi.SemiImplicit(2, 4, others=others, scale=0.3)
        log_q = jax.jit(jax.vmap(lambda key, f=family: f.joint(key, params)[1]))(jax.random.split(k_draw, 2000))
        k_draw = jax.random.clone(k_draw)
        found.append(np.asarray(log_q))
    assert found[0].mean() > found[1].mean() + 0.1 > found[2].mean() + 0.1
    # with no other draw it is the Gaussian given the mixing draw, whose mean log density is known
    gaussian = -0.5 * SIZE * (1 + np.log(2 * np.pi)) - float(sum(map(jnp.sum, jax.tree.leaves(params.log_scale))))
    assert abs(z_of(found[0], gaussian)) < 5


def test_draws_of_the_joint_are_those_of_sample(key):
    k_params, k_a, k_b = jax.random.split(key, 3)
    family = vi.SemiImplicit(2, 4, others=2, scale=0.3)
    params = params_of(family, k_params, apart=0.4)
    flat = lambda draw: jax.jit(jax.vmap(lambda key: ravel_pytree(draw(key))[0]))
    a = np.asarray(flat(lambda key: family.sample(key, params))(jax.random.split(k_a, 4000)))
    b = np.asarray(flat(lambda key: family.joint(key, params)[0])(jax.random.split(k_b, 4000)))
    for power in (1, 2):
        z = (a**power).mean(0) - (b**power).mean(0)
        assert np.abs(z / np.sqrt(((a**power).var(0) + (b**power).var(0)) / 4000)).max() < 5


def test_dropout_moments_and_delta(key):
    check_moments(vi.Dropout(0.3), key)
    assert vi.Delta().sample(jax.random.key(0), POSITION) is POSITION


def test_products_have_their_penalty(key):
    """KL of the factors by draws of them; weights begin near the position's best approximation of that rank."""
    family, prior = vi.Product(rank=2, scale=0.3), NormalPrior(jax.tree.map(lambda u: jnp.asarray(1.5), POSITION))
    k_params, k_draw = jax.random.split(key)
    params = params_of(family, k_params)
    s = jnp.sqrt(1.5 / np.sqrt(2))

    @jax.jit
    def estimates(keys):
        def one(key):
            value = 0.0
            for part in params.each:
                sides, scale = ((part,), 1.5) if hasattr(part, "log_scale") else (part, s)
                for side in sides:
                    k_side, key = jax.random.split(key)
                    x = side.mean + jnp.exp(side.log_scale) * noise.like(k_side, side.mean)
                    fill = jnp.full_like(x, jnp.log(scale))
                    value += log_normal(x, side.mean, side.log_scale) - log_normal(x, jnp.zeros_like(x), fill)
            return value

        return jax.vmap(one)(keys)

    assert abs(z_of(estimates(jax.random.split(k_draw, 4000)), family.penalty(params, prior))) < 5
    narrow = vi.Product(rank=2, scale=1e-6)
    start = narrow.sample(jax.random.key(1), narrow.init(jax.random.key(0), POSITION))
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, atol=1e-4), start, POSITION)


def test_rank_one_penalty_and_draws(key):
    family, prior = vi.RankOne(0.2, prior=0.3), NormalPrior(jax.tree.map(lambda u: jnp.asarray(1.5), POSITION))
    params = params_of(family, key)
    b, w = params.noise
    parts = divergence(type(w.left)(params.weights["b"], b), 1.5) + sum(divergence(side, 0.3) for side in w)
    expected = parts + 0.5 * jnp.sum((params.weights["w"] / 1.5) ** 2)
    np.testing.assert_allclose(family.penalty(params, prior), expected, rtol=1e-5)
    still = vi.RankOne(1e-7)
    start = still.sample(jax.random.key(1), still.init(jax.random.key(0), POSITION))
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, atol=1e-5), start, POSITION)


def test_implicit_draws_have_their_scale(key):
    """s multiplies what the hypernetwork says."""
    k_init, k_draw = jax.random.split(key)
    wide, half = vi.Implicit(scale=0.4), vi.Implicit(scale=0.2)
    params = wide.init(k_init, POSITION)
    apart = [tree.sub(f.sample(jax.random.clone(k_draw), params), POSITION) for f in (wide, half)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, 2 * b, rtol=1e-4, atol=1e-6), *apart)


def test_eigenbasis_has_the_covariance_of_its_basis(key):
    """Of vec W, rows first: (U_a ⊗ U_b) diag(S²) (U_a ⊗ U_b)ᵀ."""
    k_init, k_turn, k_draw = jax.random.split(key, 3)
    family, position = vi.Eigenbasis(0.5), jnp.zeros((3, 2))
    bases = [tuple(jax.random.orthogonal(k, n) for k, n in zip(jax.random.split(k_turn), (3, 2), strict=True))]
    params = family.init(k_init, position)._replace(
        bases=bases, log_scale=jnp.log(jnp.linspace(0.3, 1.5, 6)).reshape(3, 2)
    )
    turn = np.kron(*bases[0])
    exact = turn @ np.diag(np.linspace(0.3, 1.5, 6) ** 2) @ turn.T
    draws = np.asarray(jax.vmap(family.sample, (0, None))(jax.random.split(k_draw, 6000), params)).reshape(-1, 6)
    assert np.abs(z_of(draws[:, :, None] * draws[:, None], exact)).max() < 5
    np.testing.assert_allclose(np.ravel(family.variance(params)), np.diagonal(exact), rtol=1e-4)
    hessian = jax.hessian(lambda v: family.log_prob(params, v.reshape(3, 2)))(jnp.zeros(6))
    np.testing.assert_allclose(np.linalg.inv(-np.asarray(hessian)), exact, rtol=1e-3, atol=1e-4)


def test_a_part_leaves_the_rest(key):
    """Arrays that are not chosen stay, without variance."""
    k_init, k_draw = jax.random.split(key)
    family = vi.Part(vi.MeanField(0.3), ("w",))
    params = family.init(k_init, POSITION)
    draw, variance = family.sample(k_draw, params), family.variance(params)
    np.testing.assert_array_equal(draw["b"], POSITION["b"])
    assert (np.asarray(draw["w"]) != np.asarray(POSITION["w"])).all()
    np.testing.assert_array_equal(variance["b"], 0.0)
    np.testing.assert_allclose(variance["w"], 0.09, rtol=1e-5)


def test_implicit_draws_are_a_sheet(key):
    """Draws lie in as many dimensions as ω has, locally: their Jacobian has that rank."""
    family = vi.Implicit(inputs=2, width=5)
    params = params_of(family, key)
    moved = np.asarray(
        jax.vmap(lambda k: ravel_pytree(family.sample(k, params))[0])(jax.random.split(jax.random.key(0), 50))
    )
    assert moved.shape == (50, SIZE)
    assert np.linalg.matrix_rank(np.asarray(moved - moved.mean(0)), tol=1e-3) <= 5  # width bounds the span


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="rank is 0"):
        vi.LowRank(rank=0)
    with pytest.raises(ValueError, match=r"rate is 1\.0"):
        vi.Dropout(1.0)
    with pytest.raises(TypeError, match="Mixture needs a family with a density"):
        vi.Mixture(vi.SemiImplicit())
    with pytest.raises(ValueError, match="two coordinates"):
        vi.Flow().init(jax.random.key(0), {"a": jnp.ones(1)})
    with pytest.raises(ValueError, match="20000 coordinates"):
        vi.FullRank().init(jax.random.key(0), jnp.zeros(20_000))
    with pytest.raises(ValueError, match="singular"):
        factored(jnp.zeros(2), jnp.array([[1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(TypeError, match="needs a normal prior"):
        vi.Product().penalty(vi.Product().init(jax.random.key(0), POSITION), lambda position: 0.0)


# --- mutants: one mistake each ------------------------------------------------------------------------------------


@record
class WideMeanField(vi.MeanField):
    """Draws have twice the variance of the density."""

    def sample(self, key, params):
        scale = jax.tree.map(lambda s: 2**0.5 * jnp.exp(s), params.log_scale)
        return tree.add(params.mean, tree.mul(scale, noise.like(key, params.mean)))


@record
class UncorrelatedLowRank(vi.LowRank):
    """The density leaves the factor out of its determinant."""

    def log_prob(self, params, position):
        return super().log_prob(params, position) + 0.1


@record
class TransposedMatrix(vi.MatrixNormal):
    """The entropy counts rows for columns."""

    def entropy(self, params):
        value = vi.MatrixNormal.entropy(self, params)
        for sides in params.sides:
            if sides:
                value += (3 - 2) * (sides.rows.log_det() - sides.columns.log_det())
        return value


@record
class HalfFull(vi.FullRank):
    """The entropy has half of log det."""

    def entropy(self, params):
        return vi.FullRank.entropy(self, params) - 0.5 * jnp.trace(params.factor)


@record
class FlatMixture(vi.Mixture):
    """The density ignores the weights of the components."""

    def log_prob(self, params, position):
        values = jax.vmap(lambda one: self.family.log_prob(one, position))(params.each)
        return jax.nn.logsumexp(values)


@record
class UnscaledFlow(vi.Flow):
    """The density forgets the scale."""

    def log_prob(self, params, position):
        return vi.Flow.log_prob(self, params, position) + sum(map(jnp.sum, jax.tree.leaves(params.log_scale)))


@record
class ThinDropout(vi.Dropout):
    """Weights that stay are not scaled up."""

    def sample(self, key, params):
        return tree.scale(1 - self.rate, vi.Dropout.sample(self, key, params))


@record
class FarRadial(vi.Radial):
    """The entropy forgets that the direction has an area."""

    def entropy(self, params):
        return sum(s.size * jnp.sum(s) for s in jax.tree.leaves(params.log_scale))


MUTANTS = {
    "mean-field": (check_gaussian, WideMeanField(0.5)),
    "low-rank": (check_gaussian, UncorrelatedLowRank(0.5, rank=3)),
    "matrix-normal": (check_gaussian, TransposedMatrix(0.5)),
    "full-rank": (check_gaussian, HalfFull(0.5)),
    "mixture": (check_plane, FlatMixture(vi.MeanField(0.7), components=2, apart=0.3)),
    "flow": (check_plane, UnscaledFlow(0.5, layers=2, width=8)),
    "dropout": (check_moments, ThinDropout(0.3)),
    "radial": (check_entropy, FarRadial(0.5)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, key):
    check, family = MUTANTS[name]
    with pytest.raises(AssertionError):
        check(family, key)


def test_only_normalized_families_have_a_density():
    assert all(isinstance(f, HasLogProb) for f in (*GAUSSIANS.values(), *OTHERS.values(), vi.Radial()))
    assert not any(isinstance(f, HasLogProb) for f in (vi.SemiImplicit(), vi.Implicit(), vi.Dropout(), vi.Delta()))
