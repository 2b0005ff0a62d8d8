"""UAI files: read, written, broken."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skpc.factor_graphs import FactorGraph, log_partition, read_uai, write_uai
from skpc.factor_graphs.uai import _parsed
from tests.zoo import random_factor_graph

GOOD = b"""MARKOV  # a comment
c another comment
3
2 3 1
3
1 0   2 0 1
0
2
 .5 1E-3
6  1 2 3
   4. 5 0
1 7
"""


def test_headers_comments_and_scientific_notation_are_read(tmp_path):
    path = tmp_path / "good.uai"
    for header in (b"MARKOV", b"BAYES", b"bayes"):
        path.write_bytes(GOOD.replace(b"MARKOV", header))
        graph = read_uai(path)
        assert graph.n_states.tolist() == [2, 3, 1]
        assert graph.scopes == ((0,), (0, 1), ())
        with np.errstate(divide="ignore"):
            assert_allclose(graph.log_tables[0], np.log([0.5, 1e-3]))
            assert_allclose(graph.log_tables[1], np.log([[1, 2, 3], [4, 5, 0]]))
        assert_allclose(graph.log_tables[2], np.log(7))


def test_entries_too_small_for_a_float_are_not_taken_for_zeros(tmp_path):
    path = tmp_path / "small.uai"
    path.write_bytes(GOOD.replace(b".5 1E-3", b"1e-400 0e-400").replace(b"1 7", b"1 0.5e-320"))
    graph = read_uai(path)
    assert_allclose(graph.log_tables[0], [-400 * np.log(10), -np.inf], rtol=1e-15)
    assert_allclose(graph.log_tables[2], np.log(0.5) - 320 * np.log(10), rtol=1e-15)
    assert_allclose(log_partition(graph, evidence=[1, 0, 0]), -np.inf)
    assert np.isfinite(log_partition(graph, evidence=[0, 0, 0]))


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_comes_back_from_a_file(tmp_path, seed):
    graph = random_factor_graph(seed, n_factors=6, zeros=0.2)
    write_uai(graph, tmp_path / "graph.uai")
    again = read_uai(tmp_path / "graph.uai")
    assert again.scopes == graph.scopes
    assert again.n_states.tolist() == graph.n_states.tolist()
    for table, expected in zip(again.log_tables, graph.log_tables):
        assert_allclose(table, expected, rtol=1e-14, atol=1e-14)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.uai"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (b"MARKOV", b"CNF", "line 1: MARKOV or BAYES expected, found 'CNF'"),
        (b"2 3 1\n", b"2 0 1\n", r"line 4: the number of states of variable 1, .* found '0'"),
        (b"2 3 1\n", b"2 3.0 1\n", "line 4: .* variable 1, .* found '3.0'"),
        (b"2 0 1", b"2 0 3", r"line 6: a variable of factor 1, one of 0..2 .* found '3'"),
        (b"2 0 1", b"2 0 0", "line 6: a variable of factor 1, .* none twice, .* found '0'"),
        (b"2 0 1", b"9 0 1", "line 6: .* variables of factor 1, 3 at most, .* found '9'"),
        (b"6  1", b"5  1", "line 10: 6, the number of entries of factor 1, .* found '5'"),
        (b"1E-3", b"-1E-3", "line 9: one of the 2 entries of factor 0, .* found '-1E-3'"),
        (b"1E-3", b"nan", "line 9: .* finite number of 0 or more, expected, found 'nan'"),
        (b"1E-3", b"1E999", "found '1E999'"),
        (b"1E-3", b"1_0", "found '1_0'"),
        (b"1E-3", "½".encode(), "found 'Â½'"),
        (b"1 7\n", b"1", "line 12: .* entries of factor 2, .* but the file ends here"),
        (b"1 7\n", b"1 7 8", r"line 12: the end of the file .* found '8' \(word 25"),
        (GOOD, b"", "line 1: MARKOV or BAYES expected, but the file ends here"),
    ],
)
def test_a_broken_file_is_refused_by_line_and_word(tmp_path, before, after, message):
    path = tmp_path / "bad.uai"
    path.write_bytes(GOOD.replace(before, after))
    with pytest.raises(ValueError, match=message):
        read_uai(path)


def test_huge_promises_are_refused_before_memory_is_taken():
    many = b"MARKOV 3 " + b"999999999999999 " * 3 + b"1 3 0 1 2 8"
    with pytest.raises(ValueError, match="more than this file has words, expected, found '8'"):
        _parsed(many, "many")
    with pytest.raises(ValueError, match="states of variable 0, .* but the file ends here"):
        _parsed(b"MARKOV 999999999999999", "many")


WORDS = [b"0", b"1", b"2", b"3", b"-1", b"1e9", b"99999999", b"x", b"c", b"#", b"\n", b".", b"\xff"]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_any_damage_to_a_file_gives_a_graph_or_a_clear_error(data):
    words = GOOD.replace(b"\n", b" \n ").split(b" ")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + data.draw(st.integers(0, 2))] = [data.draw(st.sampled_from(WORDS))]
    text = b" ".join(words)
    graph_or_clear_error(text[: data.draw(st.integers(0, len(text)))])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_give_a_graph_or_a_clear_error(data):
    graph_or_clear_error(data)
    graph_or_clear_error(b"MARKOV " + data)


def graph_or_clear_error(data):
    """Read a file: it holds a factor graph, or the error names a line."""
    try:
        assert isinstance(_parsed(data, "file"), FactorGraph)
    except ValueError as error:
        message = str(error)
        if not re.match(r"file, line \d+: .* expected, ", message):
            raise


def test_values_out_of_the_range_of_floats_are_not_written(tmp_path):
    graph = FactorGraph([2], [((0,), [0.0, -800.0])])
    with pytest.raises(ValueError, match="factor 0 has the log value -800, .* no float64"):
        write_uai(graph, tmp_path / "graph.uai")
    assert list(tmp_path.iterdir()) == []


def test_bayes_is_written_for_bayesian_networks_only(tmp_path):
    rain, wet = ((), [0.8, 0.2]), ((0,), [[0.9, 0.1], [0.1, 0.9]])
    path = tmp_path / "graph.uai"
    write_uai(FactorGraph.from_bayesian_network([rain, wet]), path, header="BAYES")
    assert path.read_text().startswith("BAYES")
    with pytest.raises(ValueError, match="one factor for each variable"):
        write_uai(FactorGraph.ising_grid(2, 2, coupling=1.0), path, header="BAYES")
    with pytest.raises(ValueError, match="variable 0 must be .* sum to 1 .* found a sum of 2"):
        write_uai(FactorGraph([2], [((0,), [0.0, 0.0])]), path, header="BAYES")
    with pytest.raises(ValueError, match="one of .'MARKOV', 'BAYES'., got 'CNF'"):
        write_uai(FactorGraph([2], []), path, header="CNF")
    assert path.read_text().startswith("BAYES")
