"""Tests of `odradek.cluster`."""
