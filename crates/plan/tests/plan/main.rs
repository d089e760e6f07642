//! Plans from outside: queries in, plans or a mistake with its reason out.

mod bounds;
mod plans;
