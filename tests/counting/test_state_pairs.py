import numpy as np
import pytest

from skpc.counting import count_state_pairs, state_pairs


@pytest.mark.parametrize("at_once", [1, 4_000_000])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("n_states", [(2, 2, 2), (3, 1, 2, 5)])
def test_all_pairs_of_states_are_those_of_a_double_loop(n_states, missing, at_once, monkeypatch):
    monkeypatch.setattr(state_pairs, "_INDICATORS", at_once)
    rng = np.random.default_rng(len(n_states))
    codes = rng.integers(0, n_states, (50, len(n_states)))
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.random(50)
    found = count_state_pairs(codes, weight, np.array(n_states))
    ptr = np.concatenate([[0], np.cumsum(n_states)])
    for i in range(len(n_states)):
        for j in range(len(n_states)):
            table = np.zeros((n_states[i], n_states[j]))
            for row, w in zip(codes, weight):
                if row[i] >= 0 and row[j] >= 0:
                    table[row[i], row[j]] += w
            block = found[ptr[i] : ptr[i + 1], ptr[j] : ptr[j + 1]]
            np.testing.assert_allclose(block, table, atol=1e-12)
    assert (found >= 0.0).all()
    np.testing.assert_array_equal(found, found.T)
