"""The stages of an experiment: each one function that takes what it needs and returns a result."""
