"""Parsing of shell commands: the syntax tree, a strict parser for proofs, and a loose parser for deny rules."""
