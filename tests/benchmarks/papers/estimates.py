"""CPU seconds that measurements would take which have not been made: stopped or estimated here."""

from __future__ import annotations

ESTIMATES: dict[str, int] = {}
