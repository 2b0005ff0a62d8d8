"""Expectation propagation with learned messages: families, regression, oracles and loops."""

from skpc.messages.families import Beta, Gamma, Message, Normal
from skpc.messages.features import MessageFeatures, embedding_products, inner_widths, outer_width
from skpc.messages.layout import MessageLayout, Moments, message_moments
from skpc.messages.regression import BayesianRegression

__all__ = [
    "BayesianRegression",
    "Beta",
    "Gamma",
    "Message",
    "MessageFeatures",
    "MessageLayout",
    "Moments",
    "Normal",
    "embedding_products",
    "inner_widths",
    "message_moments",
    "outer_width",
]
