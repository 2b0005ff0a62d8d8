"""Target codecs: what a regressor is asked to learn of a belief."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc.messages.families import Message


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


def _encode_mean_logvar(belief: Message, incoming: Message) -> Floats:
    return np.column_stack([belief.mean, np.log(belief.variance)])


def _decode_mean_logvar(targets: Floats, incoming: Message) -> Message:
    return incoming.from_moments(targets[:, 0], np.exp(targets[:, 1]))


def _encode_scaled(belief: Message, incoming: Message) -> Floats:
    shift = (belief.mean - incoming.mean) / np.sqrt(incoming.variance)
    return np.column_stack([shift, np.log(belief.variance / incoming.variance)])


def _decode_scaled(targets: Floats, incoming: Message) -> Message:
    mean = incoming.mean + targets[:, 0] * np.sqrt(incoming.variance)
    return incoming.from_moments(mean, incoming.variance * np.exp(targets[:, 1]))


def _encode_natural(belief: Message, incoming: Message) -> Floats:
    return (belief / incoming).natural


def _decode_natural(targets: Floats, incoming: Message) -> Message:
    return incoming * incoming.from_natural(targets)


#: "mean-logvar": mean and log variance of the belief, the paper's. "scaled": the mean relative to
#: mean and standard deviation of the incoming message, the log of the ratio of the variances.
#: "natural": natural parameters of the outgoing message.
CODECS = {
    "mean-logvar": Codec(_encode_mean_logvar, _decode_mean_logvar),
    "scaled": Codec(_encode_scaled, _decode_scaled),
    "natural": Codec(_encode_natural, _decode_natural),
}
