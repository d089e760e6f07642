//! Ranking expressions.
