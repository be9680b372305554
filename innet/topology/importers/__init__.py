"""Readers of other tools' topology files: one file for each format."""
