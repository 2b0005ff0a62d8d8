"""
===============================
Components learned on a cluster
===============================

The components of a mixture are learned side by side by joblib, and joblib can hand them to a dask
cluster. Here the cluster is two processes of this computer; ``Client("address:port")`` would be a
real one, with skpc installed on its workers. The example needs ``dask`` and ``distributed``; skpc
itself does not need them.

The result does not depend on where it was computed.
"""

import joblib
import numpy as np
from dask.distributed import Client, LocalCluster

from skpc import CutsetNetworkBD
from skpc.datasets import load_digit_bits


def main():
    pixels = load_digit_bits().data
    model = CutsetNetworkBD(n_components=10, categories=[[0, 1]] * 64, random_state=0)
    at_home = model.fit(pixels).score_samples(pixels)

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        on_cluster = model.fit(pixels).score_samples(pixels)

    print(f"mean log-likelihood at home:        {at_home.mean():.6f} nats a row")
    print(f"mean log-likelihood on the cluster: {on_cluster.mean():.6f} nats a row")
    print("equal row by row:", np.array_equal(at_home, on_cluster))


if __name__ == "__main__":
    main()
