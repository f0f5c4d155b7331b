//! Rules for single source files.

/// Problems of one Rust file.
pub(crate) fn check(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push(format!("{path}:1: begin with `//!`: what the module is for"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_its_purpose_is_a_problem() {
        assert_eq!(check("a.rs", "//! Why.\n"), [""; 0]);
        assert_eq!(check("a.rs", "use b;\n").len(), 1);
    }
}
