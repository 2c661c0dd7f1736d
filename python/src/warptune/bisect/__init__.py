"""Finds the commit that made a row slower, for `warptune bisect`: python -m warptune.bisect."""
