"""One report: the benchmarks that fit in half an hour, as a page of the documentation.

    SKPC_DATA=... python -m tests.benchmarks.report [--out doc/benchmarks.rst] [titles ...]

Each benchmark runs in a process of its own, one after the other, on one thread. Its table goes into
the page as it was printed, with a picture where there are curves (in ``images`` next to the page),
and the page is written anew after each. Without titles all are run; with some, those whose title
contains one of them.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import skpc
from tests.benchmarks.report_pictures import accuracy_curves, error_curves

#: Where the figures are that this page does not repeat.
ELSEWHERE = """\
The figures of the five papers stand beside those of skpc in :ref:`papers`. Densities are compared
in :ref:`twenty` and :ref:`numbers`, imputers in :ref:`imputers_compared`, and predictions in
:ref:`classification` and :ref:`regression`.
"""
#: Title, what is shown, and the command after ``python -m tests.benchmarks.``.
RUNS = [
    ("Speed of the queries", "Rows a second of one thread.", "circuit"),
    (
        "Training rows with missing cells",
        "As they are, and imputed first.",
        "incomplete_training nltcs",
    ),
    ("Densities of mixed tables", "Compared with Gaussian mixtures.", "mixed cmc segment"),
    ("Imputation", "Compared with scikit-learn's imputers.", "imputation cmc segment --seeds 1"),
    (
        "Classes of incomplete rows",
        "Compared with boosting, also trained on copies with removed cells, and imputers.",
        "classification wine breast_cancer --quick",
    ),
    (
        "Numbers of incomplete rows",
        "Compared with boosting, also trained on copies with removed cells, and imputers.",
        "regression diabetes --quick",
    ),
    (
        "Regression with missing features",
        "Root mean squared error, compared with imputers and boosting.",
        "expected_kernel quality abalone --rates .1 .5 .9 --masks 2",
    ),
    ("Other libraries", "Those that are installed, with their defaults.", "libraries nltcs"),
]
PICTURES = {
    "Classes of incomplete rows": accuracy_curves,
    "Regression with missing features": error_curves,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("titles", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("doc/benchmarks.rst"))
    options = parser.parse_args()
    wanted = [run for run in RUNS if not options.titles or _is_wanted(run[0], options.titles)]
    parts = [_head()]
    options.out.write_text("\n".join(parts), encoding="utf-8")
    for title, text, command in wanted:
        print(f"{title} ...", flush=True)
        parts.append(_section(title, text, command, options.out.parent / "images"))
        options.out.write_text("\n".join(parts), encoding="utf-8")


def _is_wanted(title: str, titles: list[str]) -> bool:
    return any(part.lower() in title.lower() for part in titles)


def _head() -> str:
    versions = io.StringIO()
    with contextlib.redirect_stdout(versions):
        skpc.show_versions()
    return "\n".join(
        [
            "Benchmark report",
            "================",
            "",
            "From what ``python -m tests.benchmarks.report`` printed on "
            f"{datetime.date.today().isoformat()}. One thread; {_processor()}.",
            "",
            ELSEWHERE,
            _literal(versions.getvalue()),
        ]
    )


def _processor() -> str:
    """The name of the processor, where the system tells."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "processor unknown"


def _section(title: str, text: str, command: str, images: Path) -> str:
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *f"tests.benchmarks.{command}".split()],
        capture_output=True,
        text=True,
        env=os.environ | threads,
    )
    printed = done.stdout
    if done.returncode:
        printed += f"\nended with an error: {done.stderr.strip().splitlines()[-1]}"
    minutes = (time.perf_counter() - start) / 60
    lines = [
        title,
        "-" * len(title),
        "",
        f"{text} ``python -m tests.benchmarks.{command}``; {minutes:.1f} minutes.",
        "",
        _literal(printed),
    ]
    if title in PICTURES and not done.returncode:
        images.mkdir(exist_ok=True)
        name = f"benchmark_{command.split()[0]}.png"
        PICTURES[title](printed, images / name)
        lines += [f".. image:: /images/{name}", f"   :alt: The table above as curves. {text}", ""]
    return "\n".join(lines)


def _literal(text: str) -> str:
    body = "".join(f"   {line}".rstrip() + "\n" for line in text.strip("\n").splitlines())
    return f".. code-block:: text\n\n{body}"


if __name__ == "__main__":
    main()
