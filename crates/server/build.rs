//! Options of the linker.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|of| of == value);
    // The linker that Rust brings for this target keeps functions with the same code once, so that the program
    // is smaller. Elsewhere the system's linker may not know the option.
    if is("PROFILE", "release") && is("TARGET", "x86_64-unknown-linux-gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}
