"""Every table and figure of the five papers beside what is measured here; see ``__main__``."""
