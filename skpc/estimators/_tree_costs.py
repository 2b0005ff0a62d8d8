"""What it costs to train mixtures of all trees, said before it begins."""

from __future__ import annotations

from typing import NamedTuple

from skpc._arrays import check_memory
from skpc._fitting import announce
from skpc._warnings import warn

#: Numbers that training holds for each pair of states, as measured.
_NUMBERS = {"adam": 17.0, "lbfgs": 50.0}
#: Seconds on one core, as measured: for each row and cubed number of columns, in tables of up to
#: ``_WIDEST`` columns and in wider ones; in these also for each row and squared number of columns.
_ROW, _WIDEST, _WIDE_ROW, _LOOK_UP = 1e-10, 200, 8e-11, 1e-8
#: Seconds for each step and squared number of states.
_STEP = {"directed": 1e-8, "undirected": 4e-8}
#: Seconds for each row and squared number of columns to draw missing cells, and how often that is
#: done in an epoch.
_DRAW, _DRAWS = 1.2e-7, 0.4
#: Fits that are guessed to take longer are announced.
_LONG = 3600.0


class TreeCosts(NamedTuple):
    """The sizes that the cost of training hangs on.

    Parameters
    ----------
    n_columns, n_states : int
        Columns, and the states of all of them.
    n_components : int
        Number of components.
    solver : {"adam", "lbfgs"}
        How they are trained.
    orientation : {"directed", "undirected"}
        Of their trees; undirected ones have tables to be coupled.
    """

    n_columns: int
    n_states: int
    n_components: int
    solver: str
    orientation: str

    @property
    def _size(self) -> str:
        return f"{self.n_columns:,} columns with {self.n_states:,} states in all"

    def refuse_excess(self) -> float:
        """The memory that training takes, in GiB; refuse more than there is."""
        n_numbers = _NUMBERS[self.solver] * self.n_components * float(self.n_states) ** 2
        what = f"Mixtures of all trees over {self._size}"
        remedy = "Choose fewer columns, merge rare states, or take fewer bins or components."
        check_memory(n_numbers, what, remedy)
        return n_numbers * 8.0 / 2**30

    def tell(
        self, n_rows: int, n_incomplete: float, n_steps: float, max_iter: int, verbose: int
    ) -> None:
        """Say what training takes, if it is to say anything or takes hours.

        Parameters
        ----------
        n_rows : int
            Number of distinct rows.
        n_incomplete : float
            Number of those that lack cells.
        n_steps : float
            Steps of an epoch.
        max_iter : int
            Number of epochs.
        verbose : int
            Whether to say anything.
        """
        memory = self.refuse_excess()
        n = float(self.n_columns)
        of_row = _ROW * n**3 if n <= _WIDEST else _WIDE_ROW * n**3 + _LOOK_UP * n**2
        of_rows = of_row * (n_rows + 8.0 * n_steps)
        of_steps = _STEP[self.orientation] * float(self.n_states) ** 2 * n_steps
        of_draws = _DRAW * n**2 * n_incomplete * _DRAWS
        seconds = max_iter * self.n_components * (of_rows + of_steps + of_draws)
        memory, minutes = max(memory, 0.1), max(seconds / 60.0, 0.1)
        text = (
            f"{max_iter} epochs of {self._size} may take "
            f"{memory:.1f} GiB of memory and {minutes:,.1f} minutes (a rough guess)"
        )
        announce(text, verbose)
        if seconds > _LONG:
            warn(
                text + ": time grows with the cube of the number of columns, and with the square "
                "of the number of states. Choose fewer of them, or a smaller max_iter.",
                RuntimeWarning,
            )
