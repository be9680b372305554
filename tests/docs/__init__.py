"""The commands that README.md and docs/ show."""
