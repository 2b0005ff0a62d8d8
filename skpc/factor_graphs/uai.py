"""Factor graphs on disk: the text format of the UAI inference competitions."""

import math
import os
import re
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import NoReturn

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Floats
from skpc._files import replacing
from skpc._validation import check_option
from skpc.factor_graphs.graph import FactorGraph, check_conditional

_HEADERS = ("MARKOV", "BAYES")
_INTEGER = re.compile(r"[0-9]{1,15}\Z")
_NUMBER = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?\Z")


def read_uai(path: str | os.PathLike[str]) -> FactorGraph:
    """Read a factor graph from a UAI file.

    The file holds numbers and white space: the word MARKOV or BAYES; the number of variables and
    their numbers of states; the number of factors and, for each, the number of its variables and
    the variables; then for each factor the number of its entries and the entries, the last variable
    fastest. A ``#`` starts a comment that ends with the line, and lines whose first word is ``c``
    are comments. The word BAYES changes nothing for the factors: tables that do not sum to
    one are accepted. Entries too small for a float64, such as 1e-400, keep their logarithms.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    FactorGraph
        The factors in the order of the file.

    Raises
    ------
    ValueError
        If the file is damaged. The message names the line, what was needed and what was found.

    See Also
    --------
    write_uai : Writes such a file.

    Examples
    --------
    >>> import os, tempfile
    >>> from skpc.factor_graphs import FactorGraph, read_uai, write_uai
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "grid.uai")
    ...     write_uai(FactorGraph.ising_grid(2, 2, coupling=0.5), path)
    ...     read_uai(path)
    FactorGraph(n_variables=4, n_factors=4)
    """
    return _parsed(Path(path).read_bytes(), os.fspath(path))


def load_asia() -> FactorGraph:
    """The ASIA network of Lauritzen and Spiegelhalter (1988), which comes with the package.

    Eight binary variables; state 1 means yes: 0 visit to Asia, 1 tuberculosis, 2 smoking, 3 lung
    cancer, 4 bronchitis, 5 either (tuberculosis or lung cancer), 6 positive X-ray, 7 dyspnoea.
    Variable 5 is a function of 1 and 3, so that half of the 256 states have probability zero.

    Returns
    -------
    FactorGraph
        Eight factors, the conditional tables of the variables.

    Examples
    --------
    >>> from skpc.factor_graphs import compile, load_asia
    >>> from skpc.queries import marginals
    >>> import numpy as np
    >>> circuit = compile(load_asia())
    >>> patient = np.full((1, 8), np.nan)
    >>> patient[0, [2, 7]] = 1  # a smoker, short of breath
    >>> marginals(circuit, patient)[3].round(3)
    array([[0.852, 0.148]])
    """
    file = resources.files("skpc.factor_graphs") / "asia.uai"
    return _parsed(file.read_bytes(), "asia.uai")


def write_uai(graph: FactorGraph, path: str | os.PathLike[str], header: str = "MARKOV") -> None:
    """Write a factor graph to a UAI file.

    Parameters
    ----------
    graph : FactorGraph
        The graph. The exponentials of its log tables are written with all their digits.
    path : str or path
        The file to write. It appears whole or not at all.
    header : {"MARKOV", "BAYES"}, default="MARKOV"
        The first word. BAYES needs one factor for each variable; the variable comes last in the
        scope of its factor, and its probabilities sum to one.

    Raises
    ------
    ValueError
        If the header is a different word, BAYES does not fit the graph, or a value is too large or
        too small for a float64 without its logarithm.

    See Also
    --------
    read_uai : Reads it back.

    Examples
    --------
    >>> import os, tempfile
    >>> from skpc.factor_graphs import load_asia, read_uai, write_uai
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "asia.uai")
    ...     write_uai(load_asia(), path, header="BAYES")
    ...     read_uai(path)
    FactorGraph(n_variables=8, n_factors=8)
    """
    check_option("header", header, _HEADERS)
    # All is checked before the file is opened.
    tables = [_linear(number, table) for number, table in enumerate(graph.log_tables)]
    if header == "BAYES":
        _check_bayes(graph, tables)
    sizes = " ".join(map(str, graph.n_states.tolist()))
    lines = [header, str(graph.n_variables), sizes, str(graph.n_factors)]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in graph.scopes]
    for table in tables:
        lines += ["", str(table.size)]
        # A line for each row: the last variable is the fastest.
        rows = table.reshape(-1, table.shape[-1] if table.ndim else 1)
        lines += [" " + " ".join(map(repr, row)) for row in rows.tolist()]
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode("ascii"))


def _linear(number: int, log_table: Floats) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        table = np.exp(log_table)
    # Numbers below the normal ones have fewer digits, and zero stands for an impossible state.
    is_tiny = table < SMALLEST_NORMAL
    lost = (table == np.inf) | (is_tiny & (log_table > -np.inf))
    if lost.any():
        raise ValueError(
            f"factor {number} has the log value {log_table[lost].flat[0]:.6g}, whose exponential "
            "is no float64 of full precision; add a constant to its log table"
        )
    return table


def _check_bayes(graph: FactorGraph, tables: list[Floats]) -> None:
    children = sorted(scope[-1] for scope in graph.scopes if scope)
    if children != list(range(graph.n_variables)) or len(children) != graph.n_factors:
        raise ValueError(
            "BAYES needs one factor for each variable, which stands last in its scope; "
            f"the last variables are {children}"
        )
    for scope, table in zip(graph.scopes, tables):
        check_conditional(scope[-1], table)


class _Tokens:
    """The words of a file, one after the other, each with its line."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.words: list[tuple[int, str]] = []
        for line, raw in enumerate(data.split(b"\n"), start=1):
            words = raw.partition(b"#")[0].split()
            # A line whose first word is c is a comment.
            if words and words[0] != b"c":
                self.words += [(line, word.decode("latin-1")) for word in words]
        self.n_read = 0

    def fail(self, needed: str) -> NoReturn:
        """Raise the error about the word read last."""
        if self.n_read > len(self.words):
            last = 1
            if self.words:
                last, _ = self.words[-1]
            raise ValueError(f"{self.name}, line {last}: {needed} expected, but the file ends here")
        line, word = self.words[self.n_read - 1]
        # A damaged file may be one long word.
        shown = word
        if len(word) > 40:
            shown = word[:40] + "..."
        raise ValueError(
            f"{self.name}, line {line}: {needed} expected, found {shown!r} (word {self.n_read} of "
            "the file)"
        )

    def next(self, needed: str) -> str:
        self.n_read += 1
        if self.n_read > len(self.words):
            self.fail(needed)
        return self.words[self.n_read - 1][1]

    def integer(self, needed: str, least: int = 0, greatest: int | None = None) -> int:
        word = self.next(needed)
        number = -1
        if _INTEGER.match(word):
            number = int(word)
        if number < least or (greatest is not None and number > greatest):
            self.fail(needed)
        return number

    def log_number(self, needed: str) -> float:
        word = self.next(needed)
        # float() reads words that are no numbers of the format, such as nan or 1_000.
        value = math.inf
        if _NUMBER.match(word):
            value = float(word)
        if value == math.inf:
            self.fail(needed)
        if value >= SMALLEST_NORMAL:
            return math.log(value)
        # 1e-400 is not a float64, but its logarithm is; only a zero is impossible.
        exact = Decimal(word)
        if exact:
            return float(exact.ln())
        return -math.inf


def _parsed(data: bytes, name: str) -> FactorGraph:
    tokens = _Tokens(data, name)
    header = tokens.next("MARKOV or BAYES")
    if header.upper() not in _HEADERS:
        tokens.fail("MARKOV or BAYES")
    n_variables = tokens.integer("the number of variables")
    n_states = [
        tokens.integer(f"the number of states of variable {variable}, 1 or more,", least=1)
        for variable in range(n_variables)
    ]
    n_factors = tokens.integer("the number of factors")
    scopes = [_scope(tokens, number, n_variables) for number in range(n_factors)]
    factors = []
    for number, scope in enumerate(scopes):
        shape = [n_states[variable] for variable in scope]
        factors.append((scope, _log_table(tokens, number, shape)))
    if tokens.n_read < len(tokens.words):
        tokens.n_read += 1
        tokens.fail(f"the end of the file after the tables of {n_factors} factors")
    return FactorGraph(n_states, factors)


def _scope(tokens: _Tokens, number: int, n_variables: int) -> list[int]:
    # An array of an old version of numpy can have no more axes.
    n_most = min(n_variables, 32)
    size = tokens.integer(
        f"the number of variables of factor {number}, {n_most} at most,", greatest=n_most
    )
    needed = f"a variable of factor {number}, one of 0..{n_variables - 1} and none twice,"
    scope: list[int] = []
    # Damage shows at the first word that does not fit.
    for _ in range(size):
        variable = tokens.integer(needed, greatest=n_variables - 1)
        if variable in scope:
            tokens.fail(needed)
        scope.append(variable)
    return scope


def _log_table(tokens: _Tokens, number: int, shape: list[int]) -> Floats:
    size = math.prod(shape)
    # A size that the file cannot hold is refused before memory is asked for.
    if size > len(tokens.words):
        tokens.next("the number of entries")
        tokens.fail(f"the number of entries of factor {number}, more than this file has words,")
    tokens.integer(f"{size}, the number of entries of factor {number},", least=size, greatest=size)
    needed = f"one of the {size} entries of factor {number}, a finite number of 0 or more,"
    values = np.array([tokens.log_number(needed) for _ in range(size)])
    return values.reshape(shape)
