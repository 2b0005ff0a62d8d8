"""Fragments of what is new, one a change, joined under the headings of a version's page.

    python doc/whats_new/join.py doc/whats_new/v0.3.rst

moves them there at a release. The build of the documentation shows them there without moving them.
"""

import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).parent / "upcoming.d"
#: The heading for the first word of a fragment's name.
SECTIONS = {
    "gone": "What goes",
    "new": "What is new",
    "changed": "Behaviour that has changed",
    "faster": "Speed",
}


def fragments() -> list[Path]:
    """Files of the fragments, in the order of their names."""
    return sorted(FOLDER.glob("*.rst"))


def joined(page: str) -> str:
    """The text of a page, with each fragment as the first entry below its heading."""
    for path in reversed(fragments()):
        heading = SECTIONS[path.name.partition("-")[0]]
        head = f"{heading}\n{'-' * len(heading)}\n\n"
        entry = "- " + textwrap.indent(path.read_text(encoding="utf-8").strip(), "  ").strip()
        before, after = page.split(head)
        page = f"{before}{head}{entry}\n{'' if after.startswith('- ') else chr(10)}{after}"
    return page


if __name__ == "__main__":
    page_of_version = Path(sys.argv[1])
    page_of_version.write_text(joined(page_of_version.read_text(encoding="utf-8")))
    for fragment in fragments():
        fragment.unlink()
