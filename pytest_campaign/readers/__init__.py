"""Bounded strict parsers of our own. They know nothing of campaigns and run in pytest's own process."""
