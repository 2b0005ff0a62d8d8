"""CPU seconds of measurements that have not been made.

Estimated from those of other sets by rows and columns. Remove a line once its measurement is made.
"""

from __future__ import annotations

ESTIMATES = {
    "cutset/em_plain/20ng": 1430,
    "cutset/em_plain/ad": 1010,
    "cutset/em_plain/bbc": 2400,
    "cutset/em_plain/book": 940,
    "cutset/em_plain/r52": 1500,
    "cutset/em_plain/webkb": 3000,
    "moat/directed/20ng": 1430,
    "moat/directed/ad": 4300,
    "moat/directed/r52": 1300,
    "moat/hclt/20ng": 300,
    "moat/hclt/ad": 400,
    "moat/hclt/r52": 150,
    "moat/mt/20ng": 1000,
    "moat/mt/ad": 900,
    "moat/mt/bbc": 600,
    "moat/mt/book": 400,
    "moat/mt/eachmovie": 400,
    "moat/mt/r52": 700,
    "moat/mt/webkb": 400,
    "soft/mixed/em/bank": 400,
    "soft/mixed/em/electricity": 300,
    "soft/mixed/kmeans/bank": 400,
    "soft/mixed/kmeans/electricity": 300,
}
