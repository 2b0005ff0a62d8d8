"""Expectation propagation with learned messages: families, regression, oracles and loops."""

from skpc.messages.codecs import CODECS, Codec
from skpc.messages.factors import CompoundGammaFactor, LogisticFactor
from skpc.messages.families import Beta, Gamma, Message, Normal
from skpc.messages.features import (
    MessageFeatures,
    embedding_products,
    inner_length_scale_sq,
    outer_length_scale_sq,
)
from skpc.messages.layout import MessageLayout, Moments, message_moments
from skpc.messages.loops import LinearEP, LogisticEP, WeightPosterior, precision_posterior
from skpc.messages.operators import JustInTimeOperator, LearnedOperator
from skpc.messages.oracles import ImportanceSamplingOracle, MessageOperator, QuadratureOracle
from skpc.messages.regression import (
    BayesianRegression,
    SeparateRegressions,
    noise_of_greatest_evidence,
)

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
    "SeparateRegressions",
    "WeightPosterior",
    "embedding_products",
    "inner_length_scale_sq",
    "message_moments",
    "noise_of_greatest_evidence",
    "outer_length_scale_sq",
    "precision_posterior",
]
