//! Crates that are built in more than one version.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field;

/// Crates that may appear more than once, each with the reason. An entry that is no longer true is a problem too.
const ALLOWED: [(&str, &str); 12] = [
    ("base64", "object_store is ahead of tonic"),
    ("crypto-common", "of both versions of digest"),
    ("digest", "two dependencies of object_store"),
    ("getrandom", "each version of rand has its own"),
    ("hashbrown", "of the compiler of the .proto files, at build time only"),
    ("prettyplease", "two steps of the compiler of the .proto files, at build time only"),
    ("rand", "openraft and proptest are behind the newest"),
    ("rand_chacha", "each version of rand has its own"),
    ("rand_core", "each version of rand has its own"),
    ("syn", "thiserror is ahead of the other derive macros; at build time only"),
    ("thiserror", "openraft uses the old one"),
    ("thiserror-impl", "of both versions of thiserror"),
];

/// Checks all packages that are built for this platform.
pub(super) fn check(packages: &[Value]) -> Vec<String> {
    against(&ALLOWED, packages)
}

fn against(allowed: &[(&str, &str)], packages: &[Value]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(field(package, "name")).or_default().push(field(package, "version"));
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut problems = Vec::new();
    for (name, versions) in &versions {
        if !allowed.iter().any(|(allowed, _)| allowed == name) {
            problems.push(format!(
                "Cargo.lock: {name} is built as {}: bring its users to one version (cargo tree --duplicates), or \
                 explain it in crates/xtask/src/tidy/duplicates.rs",
                versions.join(" and "),
            ));
        }
    }
    for (name, _) in allowed.iter().filter(|(name, _)| !versions.contains_key(name)) {
        problems.push(format!(
            "crates/xtask/src/tidy/duplicates.rs: {name} is built once: take it off the list"
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_second_version_is_a_problem_unless_explained() {
        let twice =
            [json!({"name": "a", "version": "1.0.0"}), json!({"name": "a", "version": "2.0.0"})];
        assert_eq!(against(&[], &twice).len(), 1);
        assert_eq!(against(&[("a", "b needs the old one")], &twice), [""; 0]);
    }

    #[test]
    fn an_explanation_that_is_not_needed_is_a_problem() {
        let once = [json!({"name": "a", "version": "1.0.0"})];
        assert_eq!(against(&[], &once), [""; 0]);
        assert_eq!(against(&[("a", "b needs the old one")], &once).len(), 1);
    }
}
