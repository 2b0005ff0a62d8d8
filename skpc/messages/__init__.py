"""Expectation propagation with learned messages: families, regression, oracles and loops."""

from skpc.messages.codecs import CODECS, Codec
from skpc.messages.factors import CompoundGammaFactor, LogisticFactor
from skpc.messages.families import Beta, Gamma, Message, Normal
from skpc.messages.features import MessageFeatures, embedding_products, inner_widths, outer_width
from skpc.messages.layout import MessageLayout, Moments, message_moments
from skpc.messages.loops import LinearEP, LogisticEP, WeightPosterior, precision_posterior
from skpc.messages.operators import JustInTimeOperator, LearnedOperator
from skpc.messages.oracles import ImportanceSamplingOracle, MessageOperator, QuadratureOracle
from skpc.messages.regression import BayesianRegression

__all__ = [
    "CODECS",
    "BayesianRegression",
    "Beta",
    "Codec",
    "CompoundGammaFactor",
    "Gamma",
    "ImportanceSamplingOracle",
    "JustInTimeOperator",
    "LearnedOperator",
    "LinearEP",
    "LogisticEP",
    "LogisticFactor",
    "Message",
    "MessageFeatures",
    "MessageLayout",
    "MessageOperator",
    "Moments",
    "Normal",
    "QuadratureOracle",
    "WeightPosterior",
    "embedding_products",
    "inner_widths",
    "message_moments",
    "outer_width",
    "precision_posterior",
]
