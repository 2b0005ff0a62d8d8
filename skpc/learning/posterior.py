r"""Draws of the parameters of a mixture of a table, for multiple imputation.

Given complete rows and the component of each, parameters have known distributions. With a component
of :math:`n` rows, their mean :math:`m` and its covariance :math:`\Sigma` of the M-step,

.. math::

    \Sigma' \sim W^{-1}(n \Sigma, n - 1), \qquad \mu' \sim N(m, \Sigma' / n),

where :math:`W^{-1}` is the inverse Wishart distribution (Jeffreys' prior); weights and tables are
from Dirichlet distributions of their counts. Where a component of few rows lacks most cells of a
column, imputed cells and parameters would follow each other without bounds from step to step.
Therefore each of several components has some rows more, distributed like itself before the first
draw. The plain twin is ``tests/naive/table_mixture.py``.
"""

from dataclasses import replace

import numpy as np

from skpc._arrays import Floats
from skpc.learning.categorical import log_tables
from skpc.learning.gaussian_mixture import (
    GaussianMixture,
    MixtureRows,
    ParametrisedMixture,
    Sums,
    to_responsibilities,
)
from skpc.learning.table_mixture import LearnedMixture
from skpc.variables.gaussians import Gaussians


def bootstrapped(
    rows: Floats, weight: Floats, random_state: np.random.RandomState
) -> tuple[Floats, Floats]:
    """Rows with Dirichlet weights of the same sum: the Bayesian bootstrap."""
    # A row of weight two is two rows, whose weights are added.
    drawn = random_state.standard_gamma(weight)
    drawn *= weight.sum() / drawn.sum()
    return rows[drawn > 0.0], drawn[drawn > 0.0]


def open_for_draws(mixture: LearnedMixture, n_rows: float) -> LearnedMixture:
    """The mixture to begin with when parameters are drawn.

    Its covariances are shrunk to their diagonal no more than the number of rows makes necessary.
    More shrinkage hardly changes held-out likelihoods, but biases regressions on drawn rows: their
    coefficients were half a standard error too small in 200 rows of four columns with half of the
    cells missing.
    """
    columns = mixture.columns
    choices = mixture.choices
    greatest_part = len(columns.numbers) / n_rows
    candidates = [
        candidate.but(to_diagonal=min(candidate.params.to_diagonal, greatest_part))
        for candidate in choices.candidates
    ]
    return mixture._replace(choices=choices._replace(candidates=candidates))


def redrawn(
    mixture: LearnedMixture,
    rows: Floats,
    weight: Floats,
    random_state: np.random.RandomState,
    start: LearnedMixture,
) -> LearnedMixture:
    """The mixture with parameters drawn given complete encoded rows; ``start`` is before draws."""
    cells = mixture.columns.cells(rows)
    models = []
    for part, before in zip(mixture.parts, start.models):
        # Rows are drawn to components first, and then parameters given these.
        sums = drawn_sums(part, cells, weight, random_state)
        models.append(drawn_parameters(part, sums, random_state, before))
    tree = mixture.tree
    if tree is not None:
        # Hidden states are not drawn: the M-step sees their expected counts under random weights.
        tree = tree.m_step(
            tree.expected(mixture.columns, *bootstrapped(rows, weight, random_state))
        )
    return mixture.with_models(models, tree)


def drawn_sums(
    model: ParametrisedMixture,
    rows: MixtureRows,
    weight: Floats,
    random_state: np.random.RandomState,
) -> Sums:
    """The sums over weighted rows, each of which belongs to one Gaussian that is drawn."""
    share = model.mixture.joint(rows)
    to_responsibilities(share, rows, model.prior.background_weight)
    # A row whose number is above all sums belongs to the background.
    is_drawn = np.cumsum(share, axis=0) > random_state.random_sample(len(weight))
    # Sums increase: the first Gaussian whose sum exceeds the number is drawn.
    is_drawn[1:] &= ~is_drawn[:-1].copy()
    return Sums.from_rows(model.mixture, rows, is_drawn * weight)


def drawn_parameters(
    part: ParametrisedMixture,
    sums: Sums,
    random_state: np.random.RandomState,
    start: GaussianMixture,
) -> GaussianMixture:
    """Draw parameters around those of the M-step, given the sums over rows."""
    # Rows for each number, and for one more, that are like a component before the draws: enough to
    # bound covariances where no cell is observed.
    rows_of_number = 2.0
    # No drawn count of a state or a Gaussian is less.
    least_count = 1e-12
    model, prior, params = part
    n_components, d = model.gaussians.mean.shape
    n_like_start = rows_of_number * (d + 1.0) if n_components > 1 else 0.0
    fitted = part.m_step(_with_rows_like(start, n_like_start, model, sums)).mixture
    gaussians = fitted.gaussians
    n_rows = sums.by_width.sum(axis=1)
    by_width = random_state.standard_gamma(sums.by_width) + least_count
    counts = random_state.standard_gamma(np.exp(fitted.log_table) * (n_rows + 1.0)[:, np.newaxis])
    n_rows += n_like_start + (params.strength * d if n_components > 1 else 0.0)
    # One component with fewer rows than this has draws without bounds, too.
    n_rows = np.maximum(n_rows, rows_of_number * d + 1.0)[:, np.newaxis]
    # Bartlett: the root of a Wishart matrix has chi variables on its diagonal, and normals below.
    n_before = np.zeros(d) if params.factorised else np.arange(d)
    half = np.tril(random_state.standard_normal((n_components, d, d)), -1) * (not params.factorised)
    np.einsum("kii->ki", half)[:] = np.sqrt(random_state.chisquare(n_rows - 1.0 - n_before))
    # Times its transpose it is the inverse Wishart matrix; times noise, the error of the mean.
    root = np.linalg.cholesky(gaussians.covariance) @ np.linalg.inv(half).transpose(0, 2, 1)
    root *= np.sqrt(n_rows)[:, :, np.newaxis]
    error = (root @ random_state.standard_normal((n_components, d, 1)))[:, :, 0]
    # Rows in wide Gaussians tell less about the mean, and have less weight here.
    n_of_mean = np.maximum(sums.weight + n_like_start, 1.0)
    mean = gaussians.mean + error / np.sqrt(n_of_mean)[:, np.newaxis]
    return fitted._replace(
        weights=by_width.sum(axis=1) / by_width.sum(),
        log_table=log_tables(counts + least_count, prior.state_ptr),
        gaussians=Gaussians.from_covariance(mean, root @ root.transpose(0, 2, 1)),
        proportion=(by_width / by_width.sum(axis=1, keepdims=True)).ravel(),
    )


def _with_rows_like(
    start: GaussianMixture, n_rows: float, model: GaussianMixture, sums: Sums
) -> Sums:
    """Sums about a model, with rows for each component that are like it at the start."""
    like_start = Sums.from_model(start._replace(weights=np.ones(len(sums.weight))), n_rows)
    shift = start.gaussians.mean - model.gaussians.mean
    # Sums are about the means of the model, from which those at the start differ.
    outer = shift[:, :, np.newaxis] * shift[:, np.newaxis]
    mass = like_start.weight[:, np.newaxis]
    return replace(
        sums,
        weight=sums.weight + like_start.weight,
        total=sums.total + mass * shift,
        square=sums.square + like_start.square + mass[:, :, np.newaxis] * outer,
        by_width=sums.by_width + like_start.by_width,
    )
