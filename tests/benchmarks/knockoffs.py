"""Which columns matter: holdout randomisation beside Gaussian knockoffs (``knockpy``), made tables.

Twenty-four Gaussian columns in pairs, twelve of them decide a number (with fewer, knockoffs at .1
cannot select: they need ten columns); 300 rows, complete, and a density that
holds (one Gaussian). Knockoffs need complete numbers. Install ``knockpy`` in an environment of its
own, write the tables, and compare:

    python -m tests.benchmarks.knockoffs write FOLDER [--repeats 50]
    ENVIRONMENT/bin/python -P tests/benchmarks/knockoffs.py knockoffs FOLDER
    python -m tests.benchmarks.knockoffs skpc FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

#: Rate of false discoveries, effect of a column that matters.
_Q, _EFFECT = 0.1, 0.2


def made(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, a number, and which columns decide it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 24))
    X[:, 1::2] = 0.5 * X[:, ::2] + np.sqrt(0.75) * X[:, 1::2]
    matters = np.isin(np.arange(24), rng.choice(24, 12, replace=False))
    return X, _EFFECT * X[:, matters].sum(axis=1) + rng.normal(size=300), matters


def by_knockoffs(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    from knockpy import KnockoffFilter

    np.random.seed(seed)
    filtered = KnockoffFilter(ksampler="gaussian", fstat="lasso")
    return filtered.forward(X=X, y=y, fdr=_Q).astype(bool)


def by_skpc(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.linear_model import Lasso

    from skpc import TableMixture
    from skpc.comparisons import feature_importance_test

    result = feature_importance_test(
        Lasso(0.02),
        X,
        y,
        density=TableMixture(n_components=1, random_state=0),
        scoring=lambda fitted, X, y: -np.square(fitted.predict(X) - y).mean(),
        n_draws=199,
        cv=2,
        random_state=seed,
    )
    return (result.columns["adjusted"] <= _Q).to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "knockoffs", "skpc"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    if options.what == "write":
        options.folder.mkdir(parents=True, exist_ok=True)
        for seed in range(options.repeats):
            X, y, matters = made(seed)
            np.savez(options.folder / f"{seed}.npz", X=X, y=y, matters=matters)
        return
    select, shares = {"knockoffs": by_knockoffs, "skpc": by_skpc}[options.what], []
    for path in sorted(options.folder.glob("*.npz")):
        table = np.load(path)
        selected, matters = select(table["X"], table["y"], int(path.stem)), table["matters"]
        false = (selected & ~matters).sum() / max(selected.sum(), 1)
        shares.append([false, (selected & matters).sum() / matters.sum()])
    errors = np.std(shares, axis=0, ddof=1) / np.sqrt(len(shares))
    for name, mean, error in zip(("false", "power"), np.mean(shares, axis=0), errors):
        print(f"{options.what}, {name}: {mean:.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
