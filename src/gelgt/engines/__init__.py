"""Engines that people run already, and what gelgt hands to them: parts of a population on Ray.

The parts, their commit records and what makes them exactly one each are `gelgt.inference.shards`;
an engine decides who makes which part, and replaces who dies. `ray` is imported when it is used.
"""
