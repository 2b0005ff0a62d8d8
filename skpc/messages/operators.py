"""Operators that have learned: from incoming messages to beliefs by a regressor."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skpc._arrays import Floats
from skpc._repr import ShowsParameters
from skpc._validation import check_option
from skpc.messages.families import Message
from skpc.messages.oracles import MessageOperator, check_messages
from skpc.messages.tables import MessageLayout

#: Rows predicted at a time: what follows a row that has to be learned is predicted again.
_BLOCK = 256


class Codec(NamedTuple):
    """A way to write beliefs as two numbers, and to read them again.

    Parameters
    ----------
    encode : callable of (belief, incoming)
        Takes proper beliefs and the incoming messages that they belong to; gives targets, shape
        (n_rows, 2).
    decode : callable of (targets, incoming)
        The inverse. What is outside the family comes back as an improper belief.

    Examples
    --------
    >>> from skpc.messages import CODECS, Normal
    >>> incoming, belief = Normal([1.0], [4.0]), Normal([2.0], [4.0])
    >>> targets = CODECS["scaled"].encode(belief, incoming)
    >>> targets
    array([[0.5, 0. ]])
    >>> CODECS["scaled"].decode(targets, incoming)
    Normal(mean=[2.0], variance=[4.0])
    """

    encode: Callable[[Message, Message], Floats]
    decode: Callable[[Floats, Message], Message]


def _encode_scaled(belief: Message, incoming: Message) -> Floats:
    # Relative numbers, so that one regressor serves messages of all locations and scales.
    shift = (belief.mean - incoming.mean) / np.sqrt(incoming.variance)
    return np.column_stack([shift, np.log(belief.variance / incoming.variance)])


def _decode_scaled(targets: Floats, incoming: Message) -> Message:
    mean = incoming.mean + targets[:, 0] * np.sqrt(incoming.variance)
    return incoming.from_moments(mean, incoming.variance * np.exp(targets[:, 1]))


#: "statistics": expected sufficient statistics of the belief, the paper's (section 3.3).
#: "mean-logvar": its mean and log variance, as in the stored data of the paper. "scaled": the mean
#: relative to mean and standard deviation of the incoming message, the log of the ratio of the
#: variances. "natural": natural parameters of the outgoing message.
CODECS = {
    "mean-logvar": Codec(
        lambda belief, incoming: np.column_stack([belief.mean, np.log(belief.variance)]),
        lambda targets, incoming: incoming.from_moments(targets[:, 0], np.exp(targets[:, 1])),
    ),
    "scaled": Codec(_encode_scaled, _decode_scaled),
    "natural": Codec(
        lambda belief, incoming: (belief / incoming).natural,
        lambda targets, incoming: incoming * incoming.from_natural(targets),
    ),
    "statistics": Codec(
        lambda belief, incoming: belief.mean_parameters,
        lambda targets, incoming: incoming.from_mean_parameters(targets),
    ),
}


@dataclass(repr=False, eq=False)
class LearnedOperator(ShowsParameters):
    """A fitted regressor as a message operator.

    Parameters
    ----------
    regressor : regressor
        Its ``predict`` gives the two numbers of the codec for each row of incoming messages.
    layout : MessageLayout
        The columns of the incoming messages, and the variable whose belief is given.
    codec : {"scaled", "mean-logvar", "natural", "statistics"}, default="scaled"
        What the regressor has learned; see `CODECS`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import KernelEPOperator
    >>> from skpc.messages import (
    ...     CODECS,
    ...     LearnedOperator,
    ...     LogisticFactor,
    ...     QuadratureOracle,
    ... )
    >>> rng = np.random.default_rng(0)
    >>> rows = np.column_stack([np.tile([1.0, 2.0], 100), np.tile([2.0, 1.0], 100),
    ...                         rng.normal(size=200), rng.uniform(0.5, 2.0, 200)])
    >>> oracle = QuadratureOracle(LogisticFactor(), target=1)
    >>> incoming = oracle.layout.incoming(rows)
    >>> targets = CODECS["scaled"].encode(oracle.project(rows), incoming)
    >>> regressor = KernelEPOperator(
    ...     input_distributions=("beta", "normal"), random_state=0
    ... )
    >>> learned = LearnedOperator(regressor.fit(rows, targets), oracle.layout)
    >>> message = [[2.0, 1.0, 0.3, 1.0]]
    >>> bool(oracle.project(message).kl(learned.project(message)) < 1e-5)
    True
    """

    regressor: Any
    layout: MessageLayout
    _: KW_ONLY
    codec: str = "scaled"

    def __post_init__(self) -> None:
        check_option("codec", self.codec, CODECS)

    def project(self, messages: ArrayLike) -> Message:
        """Beliefs of the target; see `MessageOperator.project`."""
        rows = check_messages(messages, self.layout)
        targets = np.asarray(self.regressor.predict(rows))
        if targets.shape != (len(rows), 2):
            raise ValueError(
                f"The regressor must predict the two numbers of the codec {self.codec!r}, shape "
                f"({len(rows)}, 2); found shape {targets.shape}."
            )
        return CODECS[self.codec].decode(targets, self.layout.incoming(rows))


@dataclass(repr=False, eq=False)
class JustInTimeOperator(ShowsParameters):
    """A message operator that learns from an oracle whenever it is unsure (section 3.3).

    The first answers are the oracle's, and the regressor is fitted to them. From then on the
    oracle is asked where a log predictive variance is at or above the threshold, or the belief that
    was predicted is improper; the regressor learns from each proper answer. Learning outlives a
    run of expectation propagation: the same operator serves problem after problem.

    Parameters
    ----------
    regressor : regressor
        `KernelEPOperator`, or another with ``fit(X, y)``, ``partial_fit(X, y)`` and
        ``predict(X, return_std=True)``. If it has ``noise_variance_``, thresholds that it could
        not get below are refused.
    oracle : MessageOperator
        Gives beliefs, improper ones where it fails.
    threshold : float or array-like of shape (2,)
        Log of the predictive variance of the two numbers of the codec, one bound for both or one
        each. exp(threshold / 2) is the error (one standard deviation) that is put up with; with
        the codec "scaled" the first number is in standard deviations of the incoming message, and
        the second is the relative error of the variance. -8 accepts errors of 2 %.
    n_initial : int
        Number of proper answers of the oracle to begin with. 0 for a regressor that is fitted
        already.
    codec : {"scaled", "mean-logvar", "natural", "statistics"}, default="scaled"
        What is learned; see `CODECS`.

    Attributes
    ----------
    n_oracle_calls_ : int
        How many messages the oracle was asked about.
    n_oracle_failures_ : int
        How many of these it had no answer to.
    trace_ : ndarray of shape (n_messages, 2)
        The log predictive variances of all messages, as they were when it was decided whether to
        ask; NaN for those before the regressor was fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import KernelEPOperator
    >>> from skpc.messages import (
    ...     JustInTimeOperator,
    ...     LogisticFactor,
    ...     QuadratureOracle,
    ... )
    >>> oracle = QuadratureOracle(LogisticFactor(), target=1)
    >>> regressor = KernelEPOperator(
    ...     input_distributions=("beta", "normal"), random_state=0
    ... )
    >>> operator = JustInTimeOperator(
    ...     regressor, oracle, threshold=-8.0, n_initial=50
    ... )
    >>> rng = np.random.default_rng(0)
    >>> rows = np.column_stack([np.full(500, 2.0), np.full(500, 1.0),
    ...                         rng.normal(size=500), rng.uniform(0.5, 2.0, 500)])
    >>> beliefs = operator.project(rows)
    >>> operator.n_oracle_calls_ < 100
    True
    """

    regressor: Any
    oracle: MessageOperator
    _: KW_ONLY
    threshold: Any
    n_initial: int
    codec: str = "scaled"

    def __post_init__(self) -> None:
        check_option("codec", self.codec, CODECS)
        bounds = np.asarray(self.threshold, dtype=np.float64)
        # One bound for both numbers, or one for each.
        if bounds.shape not in ((), (2,)) or np.isnan(bounds).any():
            raise ValueError(
                "threshold must be one number, or one for each of the two numbers of the codec; "
                f"found {self.threshold!r}."
            )
        if self.n_initial < 0:
            raise ValueError(f"n_initial must be at least 0, got {self.n_initial!r}.")
        # The layout of the oracle is the one that this operator answers for.
        self.layout = self.oracle.layout
        self.n_oracle_calls_ = 0
        self.n_oracle_failures_ = 0
        self._initial: list[tuple[Floats, Floats]] = []
        self._trace: list[Floats] = []
        self._fitted = self.n_initial == 0
        # A fitted regressor can be judged now; another one once it has learned.
        if self._fitted:
            self._check_threshold()

    @property
    def trace_(self) -> Floats:
        """Log predictive variances of all messages."""
        return np.concatenate([np.empty((0, 2)), *self._trace])

    def project(self, messages: ArrayLike) -> Message:
        """Beliefs of the target; see `MessageOperator.project`.

        Rows are answered in their order, each with what was learned from those before it.
        """
        rows = check_messages(messages, self.layout)
        natural = np.empty((len(rows), 2))
        # A block of rows is predicted until one is unsure: after it, predictions may differ.
        done = 0
        while done < len(rows):
            block = rows[done : done + _BLOCK]
            belief, uncertainty, n_sure = self._predict_sure(block)
            natural[done : done + n_sure] = belief.natural[:n_sure]
            if n_sure < len(block):
                # A double bracket keeps the row two-dimensional.
                natural[done + n_sure] = self._consult(block[[n_sure]]).natural[0]
            # The unsure row has been answered as well, by the oracle.
            answered = uncertainty[: n_sure + 1]
            self._trace.append(answered)
            done += len(answered)
        return self.layout.family.from_natural(natural)

    def _predict_sure(self, rows: Floats) -> tuple[Message, Floats, int]:
        """Predicted beliefs, log variances, and how many rows come before the first unsure one."""
        incoming = self.layout.incoming(rows)
        if not self._fitted:
            # A regressor that has seen nothing is unsure of everything.
            return incoming, np.full((len(rows), 2), np.nan), 0
        targets, std = self.regressor.predict(rows, return_std=True)
        # The log of a variance is twice that of its root.
        uncertainty = 2.0 * np.log(std)
        belief = CODECS[self.codec].decode(targets, incoming)
        # A belief that cannot be normalised is of no use, however sure it is.
        unsure = (uncertainty >= self.threshold).any(axis=1) | ~belief.is_proper
        # argmax finds the first mark.
        n_sure = int(unsure.argmax()) if unsure.any() else len(rows)
        return belief, uncertainty, n_sure

    def _consult(self, row: Floats) -> Message:
        """Ask the oracle about one row, and learn from its answer if it has one."""
        belief = self.oracle.project(row)
        self.n_oracle_calls_ += 1
        # There is nothing to learn from a failure; the loop skips such a belief.
        if not belief.is_proper.all():
            self.n_oracle_failures_ += 1
            return belief
        target = CODECS[self.codec].encode(belief, self.layout.incoming(row))
        if self._fitted:
            self.regressor.partial_fit(row, target)
            return belief
        self._initial.append((row, target))
        # The first fit takes all rows together, as it has hyperparameters to choose.
        if len(self._initial) >= self.n_initial:
            self.regressor.fit(*(np.concatenate(parts) for parts in zip(*self._initial)))
            self._check_threshold()
            self._fitted = True
            self._initial = []
        return belief

    def _check_threshold(self) -> None:
        # Only some regressors know their noise; others cannot be judged.
        noise = getattr(self.regressor, "noise_variance_", None)
        if noise is None:
            return
        floor = np.log(noise)
        low = np.broadcast_to(self.threshold, floor.shape) <= floor
        if low.any():
            output = int(low.argmax())
            raise ValueError(
                f"threshold must be above {floor[output]:.2f}, the log of the noise variance of "
                f"output {output}: no prediction can be surer than that, and the oracle would be "
                f"asked every time. Found {self.threshold!r}; give a greater one, or make the "
                "regressor with a smaller noise_variance."
            )
