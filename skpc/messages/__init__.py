"""Expectation propagation with learned messages: families, regression, oracles and loops."""

from skpc.messages.families import Beta, Gamma, Message, Normal
from skpc.messages.loops import LinearEP, LogisticEP, WeightPosterior, precision_posterior
from skpc.messages.operators import CODECS, Codec, JustInTimeOperator, LearnedOperator
from skpc.messages.oracles import (
    CompoundGammaFactor,
    ImportanceSamplingOracle,
    LogisticFactor,
    MessageOperator,
    QuadratureOracle,
)
from skpc.messages.regression import (
    BayesianRegression,
    SeparateRegressions,
    noise_of_greatest_evidence,
    noise_of_least_error,
)
from skpc.messages.tables import (
    CholeskyFeatures,
    MessageFeatures,
    MessageLayout,
    Moments,
    embedding_kernel,
    embedding_products,
    inner_length_scale_sq,
    message_moments,
    outer_length_scale_sq,
)

__all__ = [
    "CODECS",
    "BayesianRegression",
    "Beta",
    "CholeskyFeatures",
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
    "embedding_kernel",
    "embedding_products",
    "inner_length_scale_sq",
    "message_moments",
    "noise_of_greatest_evidence",
    "noise_of_least_error",
    "outer_length_scale_sq",
    "precision_posterior",
]
