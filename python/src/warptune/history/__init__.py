"""Change points of recorded times, for `warptune history check`: python -m warptune.history."""
