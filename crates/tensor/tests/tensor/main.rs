//! Tensors from outside: text in, values out.

mod bounds;
mod values;
