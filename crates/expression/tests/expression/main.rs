//! Ranking expressions from outside: text in, values or a mistake with its place out.

mod forests;
mod generated;
mod reference;
mod slow;
mod values;
