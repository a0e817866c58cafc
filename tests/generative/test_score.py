"""Score matching objectives on Gaussians, where the minimiser is known; annealed Langevin; a score as a target."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from langevin.core.record import record, static
from langevin.core.run import run
from langevin.diffusion.annealed import anneal, has_density, level_of
from langevin.diffusion.levels import levels, overlap_ratio, step_rule
from langevin.diffusion.score import NCSN, Denoising, NoiseScore, ScoreMatching, Sliced, score_of
from langevin.nets.mlp import MLP
from langevin.samplers.mala import MALA
from langevin.samplers.optimize import Optimize
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.ema import EMA, mean_of
from langevin.targets.loss import Loss

TRUE = jnp.array([[2.0, 0.6], [0.6, 1.0]])  # the precision of the data
SIGMA = 0.5


def linear(position, x):
    """The score of N(0, P⁻¹), P the position."""
    return -position @ x


def quadratic(position, x):
    """Its energy."""
    return 0.5 * x @ position @ x


def blurred():
    """The precision of the data with noise of SIGMA² added."""
    return jnp.linalg.inv(jnp.linalg.inv(TRUE) + SIGMA**2 * jnp.eye(2))


OBJECTIVES = {
    "exact": (lambda program, of: ScoreMatching(program, of), lambda: TRUE),
    "sliced": (lambda program, of: Sliced(program, of, reduced=False), lambda: TRUE),
    "sliced_normal": (lambda program, of: Sliced(program, of, reduced=False, directions="normal"), lambda: TRUE),
    "sliced_vr": (lambda program, of: Sliced(program, of, slices=2), lambda: TRUE),
    "denoising": (lambda program, of: Denoising(program, of, sigma=SIGMA), blurred),
}


@pytest.mark.parametrize("of", ["score", "energy"])
@pytest.mark.parametrize("which", list(OBJECTIVES))
def test_objectives_are_least_at_the_truth(which, of, key):
    """Every entry of the gradient has mean 0 at the truth; at ±20 % of it the slope along it has its sign."""
    k_x, k_loss = jax.random.split(key)
    build, truth = OBJECTIVES[which]
    loss, truth = build(linear if of == "score" else quadratic, of), truth()
    x = jax.random.multivariate_normal(k_x, jnp.zeros(2), jnp.linalg.inv(TRUE), (20_000,))
    axes = jnp.concatenate([jnp.eye(4).reshape(4, 2, 2)[jnp.array([0, 3])], jnp.array([[[0.0, 1.0], [1.0, 0.0]]])])

    @jax.jit
    def slopes(position, direction):
        # not a vmap over v: XLA 0.10 for CPU compiles that wrongly for slices of a linear score (eagerly it is right)
        of_rows = lambda position: loss(jax.random.clone(k_loss), position, x)
        return jnp.stack([jax.jvp(of_rows, (position,), (v,))[1] for v in direction])

    z = lambda g: jnp.mean(g, axis=1) / (jnp.std(g, axis=1) / jnp.sqrt(g.shape[1]))
    assert float(jnp.max(jnp.abs(z(slopes(truth, axes))))) < 5
    assert float(z(slopes(0.8 * truth, truth[None]))[0]) < -5
    assert float(z(slopes(1.2 * truth, truth[None]))[0]) > 5


@pytest.mark.parametrize("which", ["sliced", "sliced_normal", "sliced_vr"])
def test_slices_estimate_the_exact_objective(which, key):
    k_x, k_loss, k_all = jax.random.split(key, 3)
    x = jax.random.normal(k_x, (30_000, 2))
    gap = OBJECTIVES[which][0](linear, "score")(k_loss, TRUE, x) - ScoreMatching(linear)(k_all, TRUE, x)
    assert abs(float(jnp.mean(gap) / (jnp.std(gap) / jnp.sqrt(gap.size)))) < 5


def test_reduced_slices_vary_less(key):
    k_x, k_one, k_two = jax.random.split(key, 3)
    x = jax.random.normal(k_x, (5000, 2))
    plain, reduced = (Sliced(linear, reduced=r)(k, TRUE, x) for r, k in ((False, k_one), (True, k_two)))
    assert float(jnp.var(reduced)) < 0.8 * float(jnp.var(plain))


def test_energies_are_learned_the_right_way_up(key):
    """A run on the denoising loss of an energy ends with a well where the data are, at the blurred precision."""
    k_x, k_run = jax.random.split(key)
    x = jax.random.multivariate_normal(k_x, jnp.zeros(2), jnp.linalg.inv(TRUE), (4000,))
    loss = Loss(Denoising(quadratic, "energy", sigma=SIGMA), x, batch=500)
    kernel = EMA(Optimize(optax.adam(2e-2)), decay=0.99)
    done = run(k_run, kernel, loss, 0.1 * jnp.eye(2)[None], draws=600, chunk=600, collect=mean_of)
    found = done.kept[0, -1]
    found = 0.5 * (found + found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_allclose(found, blurred(), atol=0.12)


def test_a_network_is_trained_by_its_halves(key):
    """Equinox: position and program; the loss falls, and the score of a conditional NCSN is net(x, σ)/σ."""
    k_net, k_x, k_run = jax.random.split(key, 3)
    position, program = eqx.partition(MLP([2, 32, 2], k_net, jax.nn.silu), eqx.is_inexact_array)
    x = 0.5 * jax.random.normal(k_x, (512, 2))
    loss = Loss(NCSN(program, sigmas=jnp.array([1.0, 0.5])), x, batch=128)
    done = run(k_run, Optimize(optax.adam(1e-2)), loss, jax.tree.map(lambda u: u[None], position), draws=300, chunk=300)
    assert np.mean(done.info.log_density[0, -50:]) > np.mean(done.info.log_density[0, :10]) + 0.1


def test_the_levels_of_ncsn_weigh_alike(key):
    """On N(0, v) with s(x, σ) = −x σ/(v + σ²)/σ · …: the mean of σ²-weighted losses, by hand."""
    sigmas, v = jnp.array([2.0, 1.0, 0.5]), 0.7
    x = jnp.sqrt(v) * jax.random.normal(jax.random.clone(key), (60_000, 1))
    value = NCSN(scaled, sigmas=sigmas, conditional=True)(key, jnp.asarray(v), x)
    # ½ E|σ s + ε|² with s = −x̃/(v + σ²): the noise left after the best guess, ½ v/(v + σ²)
    truth = float(jnp.mean(0.5 * v / (v + sigmas**2)))
    assert abs(float(jnp.mean(value)) - truth) < 5 * float(jnp.std(value) / jnp.sqrt(value.size))


def scaled(v, x, sigma):
    return -sigma * x / (v + sigma**2)


# --- annealed Langevin ------------------------------------------------------------------------------------------------


@record
class Blurred:
    """The score of an even mixture of two Gaussians, blurred by σ; with its log density if asked."""

    conservative: bool = static(default=True)

    def log_density(self, x, sigma):
        v = 0.2**2 + sigma**2
        means = jnp.array([[1.0, 0.0], [-1.0, 0.5]])
        return jax.nn.logsumexp(-0.5 * jnp.sum((x[None] - means) ** 2, axis=1) / v)

    def __call__(self, x, sigma):
        return jax.grad(self.log_density)(x, sigma)


@pytest.mark.parametrize("kernel", ["sgld", "mala"])
def test_annealed_langevin_reaches_the_mixture(kernel, key):
    """Both modes alike, with the right spread: of the last level, or the data after denoising."""
    k_start, k_run, k_more = jax.random.split(key, 3)
    sigmas = np.geomspace(4.0, 0.05, 25)
    n = 3000
    start = 4 * jax.random.normal(k_start, (n, 2))
    moves = dict(sgld=SGLD(step_rule(sigmas, 10)), mala=MALA(0.2))[kernel]
    x = anneal(k_run, moves, Blurred(), sigmas, start, steps=10, denoise=False)
    first = np.asarray(x[:, 0]) > 0
    assert abs(first.mean() - 0.5) < 5 * 0.5 / np.sqrt(n)
    spread = np.var(np.asarray(x)[first] - [1.0, 0.0]) / (0.2**2 + 0.05**2)
    room = 0.03 if kernel == "mala" else 0.12  # SGLD is too hot by h/2, and more at few steps
    assert abs(spread - 1) < room + 5 * np.sqrt(2 / (2 * first.sum()))
    if kernel == "sgld":
        clean = anneal(k_more, moves, Blurred(), sigmas, start, steps=10)
        found = np.asarray(clean)[np.asarray(clean[:, 0]) > 0]
        assert np.var(found - [1.0, 0.0]) < 0.95 * np.var(np.asarray(x)[first] - [1.0, 0.0])


def test_a_step_in_units_of_a_level_is_the_published_one():
    """SGLD(h) on Level(scale=σ), without noise: x + h σ² s."""
    level = level_of(Blurred(False), 0.5, 0.5)
    x = jnp.array([0.3, -0.2])
    kernel = SGLD(0.1, temperature=0.0)
    state = kernel.init(jax.random.key(0), x / 0.5, level)
    state, info = kernel.step(jax.random.key(1), state, level)
    np.testing.assert_allclose(0.5 * state.position, x + 0.1 * 0.25 * Blurred()(x, 0.5), rtol=1e-5)
    assert float(info.log_density) == 0.0
    assert bool(info.ok)


def test_a_level_with_a_density_tells_it():
    level = level_of(Blurred(), 0.5, 0.5)
    x = jnp.array([0.3, -0.2])
    evaluation = level.evaluate((), x / 0.5)
    assert float(evaluation.log_density) == pytest.approx(float(Blurred().log_density(x, 0.5)), rel=1e-5)
    np.testing.assert_allclose(evaluation.grad, 0.5 * Blurred()(x, 0.5), rtol=1e-5)
    assert has_density(Blurred())
    assert not has_density(Blurred(False))


def broken(x, t):
    return jnp.full_like(x, jnp.nan)


def test_a_score_that_is_not_finite_is_reported():
    evaluation = level_of(broken, 1.0).evaluate((), jnp.zeros(2))
    assert bool(jnp.isnan(evaluation.log_density))


def test_an_energy_over_levels_is_its_scores_density():
    score = NoiseScore(quadratic, TRUE, "energy")
    x = jnp.array([0.4, -1.0])
    np.testing.assert_allclose(score(x, 0.3), jax.grad(score.log_density)(x, 0.3), rtol=1e-5)
    np.testing.assert_allclose(score(x, 0.3), -TRUE @ x / 0.3, rtol=1e-5)
    np.testing.assert_allclose(score_of(quadratic, TRUE, "energy", x), -TRUE @ x, rtol=1e-5)


def test_the_rules_for_cifar_are_those_published():
    """D = 3072, σ 50 → 0.01: about 232 levels (the rule says about ½), and of these ε₀ = 6.2e-6 with five steps."""
    sigmas = levels(np.zeros((1, 3072)), 0.01, largest=50.0)
    assert abs(len(sigmas) - 232) <= 15
    assert sigmas[0] / sigmas[1] <= overlap_ratio(3072)
    assert step_rule(np.geomspace(50, 0.01, 232), 5) * 0.01**2 == pytest.approx(6.2e-6, rel=0.01)


def test_the_largest_level_is_the_largest_distance():
    x = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    sigmas = levels(x, 0.1)
    assert sigmas[0] == pytest.approx(5.0)
    assert sigmas[-1] == pytest.approx(0.1)


REFUSED = {
    "of is 'energies'": lambda: ScoreMatching(linear, "energies"),
    "slices is 0": lambda: Sliced(linear, slices=0),
    "directions is": lambda: Sliced(linear, directions="sphere"),
    "sigma is -1": lambda: Denoising(linear, sigma=-1.0),
    "fall towards the data": lambda: anneal(jax.random.key(0), SGLD(), Blurred(), [0.1, 1.0], jnp.zeros((1, 2))),
    "steps is 0": lambda: anneal(jax.random.key(0), SGLD(), Blurred(), [1.0, 0.1], jnp.zeros((1, 2)), steps=0),
    "this score has none": lambda: anneal(jax.random.key(0), MALA(), Blurred(False), [1.0, 0.1], jnp.zeros((1, 2))),
    "not finite": lambda: levels(np.full((3, 2), np.nan)),
    "smallest is 9": lambda: levels(np.eye(3), 9.0),
}


@pytest.mark.parametrize("sentence", list(REFUSED))
def test_bad_input_is_refused_in_a_sentence(sentence):
    with pytest.raises(ValueError) as caught:
        REFUSED[sentence]()
    assert sentence in str(caught.value)
