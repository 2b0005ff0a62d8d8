"""Every table and figure of the five papers and our figures; see ``__main__``."""
