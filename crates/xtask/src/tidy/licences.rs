//! The licences of all dependencies against those that the product may be shipped with.

use serde_json::Value;

use super::field;

/// Licences that ask for no more than attribution.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks the licence of every package.
pub(super) fn check(packages: &[Value]) -> Vec<String> {
    let problem = |package: &Value| {
        let licence = field(package, "license");
        (!is_allowed(licence)).then(|| {
            format!(
                "Cargo.lock: {} {} has licence `{licence}`: choose another crate, or allow the licence in \
                 crates/xtask/src/tidy/licences.rs",
                field(package, "name"),
                field(package, "version"),
            )
        })
    };
    packages.iter().filter_map(problem).collect()
}

/// Whether some choice that an SPDX expression leaves is allowed as a whole.
fn is_allowed(expression: &str) -> bool {
    // The old way to write OR, still met.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = any_of(&mut words);
    allowed && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>) -> bool {
    let mut allowed = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: &mut Words<'_>) -> bool {
    let mut allowed = single(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= single(words);
    }
    allowed
}

fn single(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => any_of(words) && words.next() == Some(")"),
        Some(name) if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next().unwrap_or_default();
            ALLOWED.contains(&format!("{name} WITH {exception}").as_str())
        }
        Some(name) => ALLOWED.contains(&name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_understood() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-3.0",
            "Apache-2.0 AND ISC",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "MIT WITH X", "MIT MIT"]
        {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn a_package_with_another_licence_is_a_problem() {
        let packages =
            [serde_json::json!({ "name": "a", "version": "1.0.0", "license": "GPL-3.0" })];
        assert!(check(&packages)[0].contains("a 1.0.0 has licence `GPL-3.0`"));
    }
}
