//! The project's own commands: `cargo xtask check`, `test`, `fix`, `sim`, `soak`.
fn main() {}
