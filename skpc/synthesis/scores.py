"""What densities of tables have in common here."""

from typing import Any

from sklearn.base import BaseEstimator, DensityMixin

from skpc._validation import mean_score


class ScoredRows(DensityMixin, BaseEstimator):
    """A density that takes tables with missing cells and scores their rows."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log density of the rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the mean.

        Returns
        -------
        float
            Nats per row; greater is better.

        Raises
        ------
        ValueError
            If the weights are negative or all zero.
        """
        return mean_score(self.score_samples(X), sample_weight)
