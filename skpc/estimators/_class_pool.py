"""A pool of densities and classifiers: learned in folds, weighed, learned again from all rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import delayed

from skpc._arrays import Floats, Ints, log_or_inf
from skpc._fitting import followed, progress, without_warnings
from skpc.domain import Domain
from skpc.estimators._class_members import ClassDensities, CopiesClassifier, evidence_of
from skpc.estimators._log_pool import LogPool
from skpc.estimators._masked_copies import fit_on_copies
from skpc.learning import mixture_weights
from skpc.pooling.folds import HeldOut, Split, hold_out_folds, share_seen


class Member(NamedTuple):
    """A member of a pool before it is learned.

    Attributes
    ----------
    name : str
    model : density estimator, classifier, or "classifier" for boosting
    joint : bool or None
        For a density, whether it is one of rows and classes. None: the model is a classifier.
    """

    name: str
    model: Any
    joint: bool | None


class Lesson(NamedTuple):
    """What members learn from.

    Attributes
    ----------
    domain : Domain
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    code : ndarray of shape (n_rows,), int
        Numbers of their classes.
    classes : ndarray of shape (n_classes,)
        Names of the classes.
    rates : list of float
        Proportions of cells that are removed from copies of rows.
    """

    domain: Domain
    rows: Floats
    code: Ints
    classes: NDArray[Any]
    rates: list[float]

    def learn(self, member: Member, weight: Floats, seed: int) -> ClassDensities | CopiesClassifier:
        """Learn a member from the rows of positive weight."""
        some = weight > 0.0
        part = self.domain, self.rows[some], self.code[some], weight[some]
        if member.joint is not None:
            return ClassDensities.learn(member.model, member.joint, *part, self.classes)
        count = np.bincount(self.code, weight, len(self.classes)).astype(np.float64)
        if (count > 0.0).sum() == 1:
            return CopiesClassifier([], count)
        random_state = np.random.RandomState(seed)
        return CopiesClassifier(fit_on_copies(member.model, *part, self.rates, random_state), count)

    def ask(
        self, member: Member, chosen: Any, fold: HeldOut, seed: int, log_prior: Floats
    ) -> tuple[Floats, Floats]:
        """What a member that has not learned the rows of a fold says of them.

        ``chosen`` is a density that has learned all rows: it shows what to choose.

        Returns
        -------
        evidence : ndarray of shape (n_asked, n_classes)
            See :meth:`ClassDensities.evidence`.
        log_density : ndarray of shape (n_asked,)
            Log density of the rows with their own classes; -inf from a classifier.
        """
        model = member.model if chosen is None else chosen
        learned = self.learn(member._replace(model=model), fold.kept, seed)
        if isinstance(learned, CopiesClassifier):
            return learned.evidence(fold.asked), np.full(len(fold.rows), -np.inf)
        with without_warnings():
            log_density = learned.log_density(fold.asked)
        code = self.code[fold.rows]
        own = (log_density + log_prior)[np.arange(len(code)), code]
        return evidence_of(log_density, learned.class_count), own


class ClassPool(NamedTuple):
    """Learned members and their weights.

    Attributes
    ----------
    learned : list of ClassDensities, CopiesClassifier or None
        None for members that weigh nothing.
    pool : LogPool
        Weights in the probabilities of the classes.
    mixture : ndarray of shape (n_members,)
        Weights in the density of the rows.
    losses : list of float
        Log losses out of fold, of the members and of the pool; empty without folds.
    """

    learned: list[Any]
    pool: LogPool
    mixture: Floats
    losses: list[float]

    @classmethod
    def of_one(cls, lesson: Lesson, member: Member, weight: Floats) -> ClassPool:
        """A single density, which needs no weights."""
        learned = lesson.learn(member, weight, 0)
        pool = LogPool(np.ones((2, 1)), np.zeros(len(lesson.classes)))
        return cls([learned], pool, np.ones(1), [])

    @classmethod
    def learn(
        cls,
        lesson: Lesson,
        members: list[Member],
        weight: Floats,
        splits: int | list[Split],
        n_jobs: int | None,
        random_state: np.random.RandomState,
        verbose: int,
    ) -> ClassPool:
        """Weigh members by what they say of held-out rows, and learn those that count.

        Parameters
        ----------
        lesson : Lesson
        members : list of Member
        weight : ndarray of shape (n_rows,)
            Positive weights of the rows of the lesson.
        splits : int or list of Split
            Folds; see :func:`hold_out_folds`.
        n_jobs : int or None
            How many members and folds are learned side by side.
        random_state : RandomState instance
        verbose : int
            Whether to show progress.
        """
        folds = hold_out_folds(lesson.rows, weight, lesson.code, splits, lesson.rates, random_state)
        seeds = random_state.randint(2**31, size=len(members)).tolist()
        log_prior = _log_shares(lesson, weight)
        with progress(len(members) * (1 + len(folds)), "fits", verbose) as advance:
            run = followed(n_jobs, advance)

            def learn(some: list[int]) -> dict[int, Any]:
                calls = (delayed(lesson.learn)(members[m], weight, seeds[m]) for m in some)
                return dict(zip(some, run(calls)))

            # What densities choose, such as a number of components, they choose once, by all rows.
            learned = learn([m for m, member in enumerate(members) if member.joint is not None])
            said = run(
                delayed(lesson.ask)(member, learned.get(m), fold, seeds[m], log_prior)
                for fold in folds
                for m, member in enumerate(members)
            )
            answers = _Answers.gather(lesson, members, folds, said)
            pool, losses = answers.pool(log_prior)
            counts = np.asarray(pool.weights.any(axis=0))
            mixture = answers.mixture(counts)
            counts |= mixture > 0.0
            used = np.flatnonzero(counts).tolist()
            learned |= learn([m for m in used if m not in learned])
        kept = [learned[m] if m in used else None for m in range(len(members))]
        return cls(kept, pool, mixture, losses)

    def log_odds(self, rows: Floats, domain: Domain) -> Floats:
        """Log odds of the classes beyond their priors, shape (n_rows, n_classes)."""
        used = np.flatnonzero(self.pool.weights.any(axis=0))
        with without_warnings(len(self.learned) > 1):
            evidence = [self.learned[m].evidence(rows) for m in used.tolist()]
        pool = LogPool(self.pool.weights[:, used], self.pool.offsets)
        return pool.log_odds(np.array(evidence).transpose(1, 0, 2), share_seen(rows, domain))

    def log_density(self, rows: Floats, log_prior: Floats) -> Floats:
        """Log density of encoded rows under the mixture of the densities, shape (n_rows,)."""
        used = np.flatnonzero(self.mixture).tolist()
        with without_warnings(len(self.learned) > 1):
            found = [
                np.logaddexp.reduce(self.learned[m].log_density(rows) + log_prior, axis=1)
                for m in used
            ]
        return np.asarray(
            np.logaddexp.reduce(np.array(found).T + np.log(self.mixture[used]), axis=1)
        )

    def draw(self, code: Ints, n_features: int, random_state: np.random.RandomState) -> Floats:
        """Draw an encoded row from the mixture for each number of a class."""
        source = random_state.choice(len(self.mixture), len(code), p=self.mixture)
        rows = np.empty((len(code), n_features))
        for m in np.unique(source).tolist():
            mine = source == m
            rows[mine] = self.learned[m].draw(code[mine], n_features, random_state)
        return rows


class _Answers(NamedTuple):
    """What all members have said of all rows that were held out."""

    evidence: Floats  # (n_asked, n_members, n_classes)
    log_density: Floats  # (n_asked, n_members)
    is_density: NDArray[np.bool_]  # (n_members,)
    code: Ints
    weight: Floats
    seen: Floats

    @classmethod
    def gather(
        cls, lesson: Lesson, members: list[Member], folds: list[HeldOut], said: list[Any]
    ) -> _Answers:
        n_members, n_classes = len(members), len(lesson.classes)
        is_density = np.array([member.joint is not None for member in members])
        evidence, log_density = [np.empty((0, n_members, n_classes))], [np.empty((0, n_members))]
        for k in range(len(folds)):
            of_fold = said[k * n_members : (k + 1) * n_members]
            evidence.append(np.array([one for one, _ in of_fold]).transpose(1, 0, 2))
            log_density.append(np.array([one for _, one in of_fold]).T)
        rows = np.concatenate([np.empty(0, np.int64), *(fold.rows for fold in folds)])
        asked = [np.empty((0, lesson.rows.shape[1])), *(fold.asked for fold in folds)]
        return cls(
            np.concatenate(evidence),
            np.concatenate(log_density),
            is_density,
            lesson.code[rows],
            np.concatenate([np.empty(0), *(fold.weight for fold in folds)]),
            share_seen(np.concatenate(asked), lesson.domain),
        )

    def pool(self, log_prior: Floats) -> tuple[LogPool, list[float]]:
        """The pool, and the log losses of each member and of the pool."""
        questions = self.seen, self.code, self.weight, log_prior
        pool = LogPool.fit(self.evidence, *questions)
        alone = LogPool(np.ones((2, 1)), np.zeros(len(log_prior)))
        losses = [
            alone.log_loss(self.evidence[:, [m]], *questions) for m in range(len(self.is_density))
        ]
        return pool, [*losses, pool.log_loss(self.evidence, *questions)]

    def mixture(self, counts: NDArray[np.bool_]) -> Floats:
        """Weights of the densities in the mixture: of those that count for the classes, if any."""
        some = self.is_density & counts
        some = some if some.any() else self.is_density
        found = np.zeros(len(some))
        found[some] = mixture_weights(self.log_density[:, some], self.weight)
        return found


def _log_shares(lesson: Lesson, weight: Floats) -> Floats:
    count = np.bincount(lesson.code, weight, len(lesson.classes))
    return log_or_inf(count / count.sum())
