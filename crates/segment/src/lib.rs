//! One bucket's immutable file.
