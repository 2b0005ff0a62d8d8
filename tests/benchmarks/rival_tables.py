"""Rivals that draw tables, from an environment of their own (``synthetic.txt``).

python rival_tables.py MODEL SEED N_ROWS TRAIN.csv STRINGS DRAWN.csv

``STRINGS`` are the columns of strings, with commas between them. It prints the CPU seconds.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pandas as pd


def arf(table: pd.DataFrame, seed: int, n_rows: int) -> pd.DataFrame:
    """Adversarial random forest."""
    from arfpy import arf

    # It calls a function by the name that numpy has dropped.
    vars(np)["in1d"] = np.isin
    np.random.seed(seed)
    model = arf.arf(x=table, random_state=seed, verbose=False)
    model.forde()
    return model.forge(n=n_rows)


def copula(table: pd.DataFrame, seed: int, n_rows: int) -> pd.DataFrame:
    """Gaussian copula of the synthesizers, which has margins of several kinds."""
    return _synthesizer("GaussianCopulaSynthesizer", table, seed, n_rows)


def ctgan(table: pd.DataFrame, seed: int, n_rows: int) -> pd.DataFrame:
    """Conditional adversarial network, with its defaults."""
    return _synthesizer("CTGANSynthesizer", table, seed, n_rows)


def tvae(table: pd.DataFrame, seed: int, n_rows: int) -> pd.DataFrame:
    """Variational autoencoder, with its defaults."""
    return _synthesizer("TVAESynthesizer", table, seed, n_rows)


def _synthesizer(name: str, table: pd.DataFrame, seed: int, n_rows: int) -> pd.DataFrame:
    import torch
    from sdv import single_table
    from sdv.metadata import Metadata

    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    kinds = {
        column: {"sdtype": "categorical" if table[column].dtype == object else "numerical"}
        for column in table
    }
    metadata = Metadata.load_from_dict({"tables": {"table": {"columns": kinds}}})
    model = getattr(single_table, name)(metadata)
    model.fit({"table": table})
    drawn = model.sample(n_rows)
    return drawn["table"] if isinstance(drawn, dict) else drawn


def main() -> None:
    model, seed, n_rows, source, strings, target = sys.argv[1:]
    names = [name for name in strings.split(",") if name]
    table = pd.read_csv(source, dtype=dict.fromkeys(names, str), keep_default_na=False)
    table = table.astype(dict.fromkeys(names, object))
    warnings.simplefilter("ignore")
    start = time.process_time()
    drawn = globals()[model](table, int(seed), int(n_rows))
    drawn[list(table)].to_csv(target, index=False)
    print(time.process_time() - start)


if __name__ == "__main__":
    main()
