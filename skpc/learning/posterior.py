r"""Draws of the parameters of a mixture of a table, for multiple imputation.

Given complete rows and the component of each, parameters have known distributions. With a component
of :math:`n` rows, their mean :math:`m` and its covariance :math:`\Sigma` of the M-step,

.. math::

    \Sigma' \sim W^{-1}(n \Sigma, n - 1), \qquad \mu' \sim N(m, \Sigma' / n),

where :math:`W^{-1}` is the inverse Wishart distribution (Jeffreys' prior); weights and tables are
from Dirichlet distributions of their counts. The plain twin is ``tests/naive/table_mixture.py``.
"""

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

#: Rows for each number that tell a covariance, at least, when it is drawn.
_ROWS_EACH = 2.0
#: Counts of states and weights, at least, when they are drawn.
_LEAST = 1e-12


def bootstrapped(
    rows: Floats, weight: Floats, random_state: np.random.RandomState
) -> tuple[Floats, Floats]:
    """Rows with Dirichlet weights of the same sum: the Bayesian bootstrap."""
    # A row of weight two is two rows, whose weights are added.
    drawn = random_state.standard_gamma(weight)
    drawn *= weight.sum() / drawn.sum()
    return rows[drawn > 0.0], drawn[drawn > 0.0]


def open_for_draws(mixture: LearnedMixture, n_rows: float) -> LearnedMixture:
    """The mixture before its parameters are drawn.

    Covariances are drawn to their diagonal no more than the number of rows makes necessary.
    Held-out likelihood hardly minds, but coefficients of draws would be biased towards zero: by
    half a standard error, in 200 rows of four columns with half of the cells missing.
    """
    columns, choices = mixture.columns, mixture.choices
    most = len(columns.numbers) / n_rows
    candidates = [
        candidate.but(to_diagonal=min(candidate.params.to_diagonal, most))
        for candidate in choices.candidates
    ]
    return mixture._replace(choices=choices._replace(candidates=candidates))


def redrawn(
    mixture: LearnedMixture, rows: Floats, weight: Floats, random_state: np.random.RandomState
) -> LearnedMixture:
    """The mixture with parameters drawn given complete encoded rows."""
    cells, models = mixture.columns.cells(rows), []
    for part in mixture.parts:
        # Rows are drawn to components first, and then parameters given these.
        sums = drawn_sums(part, cells, weight, random_state)
        models.append(drawn_parameters(part.m_step(sums), sums, random_state))
    tree = mixture.tree
    if tree is not None:
        # The states of its hidden variables are expected.
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
    # Rows above the last sum belong to the background.
    is_drawn = np.cumsum(share, axis=0) > random_state.random_sample(len(weight))
    is_drawn[1:] &= ~is_drawn[:-1].copy()
    return Sums.from_rows(model.mixture, rows, is_drawn * weight)


def drawn_parameters(
    fitted: ParametrisedMixture, sums: Sums, random_state: np.random.RandomState
) -> GaussianMixture:
    """Draw parameters around those of the M-step from some sums."""
    model, prior, params = fitted
    n_components, d = model.gaussians.mean.shape
    n_rows = sums.by_width.sum(axis=1)
    by_width = random_state.standard_gamma(sums.by_width) + _LEAST
    counts = random_state.standard_gamma(np.exp(model.log_table) * (n_rows + 1.0)[:, np.newaxis])
    # Fewer rows than this tell so little that some draws would be without bounds.
    n_rows += params.strength * d if n_components > 1 else 0.0
    n_rows = np.maximum(n_rows, _ROWS_EACH * d + 1.0)[:, np.newaxis]
    # Bartlett: the root of a Wishart matrix has chi variables on its diagonal, and normals below.
    n_before = np.zeros(d) if params.factorised else np.arange(d)
    half = np.tril(random_state.standard_normal((n_components, d, d)), -1) * (not params.factorised)
    np.einsum("kii->ki", half)[:] = np.sqrt(random_state.chisquare(n_rows - 1.0 - n_before))
    root = np.linalg.cholesky(model.gaussians.covariance) @ np.linalg.inv(half).transpose(0, 2, 1)
    root *= np.sqrt(n_rows)[:, :, np.newaxis]
    error = (root @ random_state.standard_normal((n_components, d, 1)))[:, :, 0]
    mean = model.gaussians.mean + error / np.sqrt(np.maximum(sums.weight, 1.0))[:, np.newaxis]
    return model._replace(
        weights=by_width.sum(axis=1) / by_width.sum(),
        log_table=log_tables(counts + _LEAST, prior.state_ptr),
        gaussians=Gaussians.from_covariance(mean, root @ root.transpose(0, 2, 1)),
        proportion=(by_width / by_width.sum(axis=1, keepdims=True)).ravel(),
    )
