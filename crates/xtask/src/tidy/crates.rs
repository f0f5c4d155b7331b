//! Which crate may import which, and that every crate has the workspace's lints.

use serde_json::Value;

use super::field;
use crate::workspace::list;

/// A crate of the product.
struct Crate {
    name: &'static str,
    may_import: &'static [&'static str],
    /// Crates of others that would bring in what this one must not know.
    must_not_know: &'static [&'static str],
}

/// The layers of the product, lowest first; ARCHITECTURE.md says why.
const PRODUCT: [Crate; 10] = [
    Crate {
        name: "danube-model",
        may_import: &[],
        must_not_know: &["tokio", "tonic", "prost", "rustix"],
    },
    Crate { name: "danube-env", may_import: &[], must_not_know: &["tonic", "prost", "openraft"] },
    Crate {
        name: "danube-log",
        may_import: &["danube-model", "danube-env"],
        must_not_know: &["tonic", "prost", "openraft"],
    },
    Crate {
        name: "danube-dispatch",
        may_import: &["danube-model"],
        must_not_know: &["tokio", "tonic", "prost", "openraft", "rustix"],
    },
    Crate {
        name: "danube-meta",
        may_import: &["danube-model", "danube-env"],
        must_not_know: &["tonic", "prost"],
    },
    Crate {
        name: "danube-broker",
        may_import: &["danube-log", "danube-dispatch", "danube-meta", "danube-model", "danube-env"],
        must_not_know: &["tonic", "prost", "openraft", "object_store", "redis"],
    },
    Crate {
        name: "danube-proto",
        may_import: &["danube-model"],
        must_not_know: &["openraft", "object_store", "redis"],
    },
    Crate {
        name: "danube-client",
        may_import: &["danube-proto", "danube-model"],
        must_not_know: &["openraft", "object_store", "redis"],
    },
    Crate {
        name: "danube-server",
        may_import: &[
            "danube-broker",
            "danube-client",
            "danube-proto",
            "danube-model",
            "danube-env",
        ],
        must_not_know: &["openraft", "object_store", "redis"],
    },
    Crate {
        name: "danube-cli",
        may_import: &["danube-server", "danube-client", "danube-log", "danube-env", "danube-model"],
        must_not_know: &["tonic", "prost", "openraft", "object_store", "redis"],
    },
];

/// Crates that only serve development: they may import anything, and nothing of the product imports them.
const DEVELOPMENT: [&str; 3] = ["danube-sim", "danube-e2e", "danube-xtask"];

/// Checks the imports of all crates of the workspace.
pub(super) fn edges(packages: &[Value]) -> Vec<String> {
    packages.iter().filter(|package| package["source"].is_null()).flat_map(edges_of).collect()
}

/// Checks that a crate takes the lints of the workspace.
pub(super) fn manifest(path: &str, text: &str) -> Option<String> {
    let has_lints = text.contains("[lints]\nworkspace = true\n");
    (!has_lints).then(|| format!("{path}:1: add `[lints]` with `workspace = true`"))
}

fn edges_of(package: &Value) -> Vec<String> {
    let name = field(package, "name");
    if DEVELOPMENT.contains(&name) {
        return Vec::new();
    }
    let Some(krate) = PRODUCT.iter().find(|krate| krate.name == name) else {
        return vec![format!(
            "{name}: give it a row in the table of crates/xtask/src/tidy/crates.rs"
        )];
    };
    let mut problems = Vec::new();
    for dependency in list(&package["dependencies"]) {
        let imported = field(dependency, "name");
        let for_tests = dependency["kind"] == "dev";
        let place = format!("{name}/Cargo.toml: {imported}");
        if krate.must_not_know.contains(&imported) && !for_tests {
            problems.push(format!("{place}: {name} must not know it; move what needs it up"));
        }
        let is_ours = !dependency["path"].is_null();
        // A crate's tests may switch on more of the crate itself.
        let is_allowed = krate.may_import.contains(&imported)
            || (for_tests && (imported == name || DEVELOPMENT.contains(&imported)));
        if is_ours && !is_allowed {
            let allowed = krate.may_import.join(", ");
            problems
                .push(format!("{place}: not an edge of the design; {name} may import [{allowed}]"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(name: &str, dependency: &Value) -> Vec<String> {
        edges(&[json!({ "name": name, "source": null, "dependencies": [dependency] })])
    }

    fn ours(name: &str) -> Value {
        json!({ "name": name, "path": "/x", "kind": null })
    }

    #[test]
    fn an_edge_of_the_design_passes() {
        assert_eq!(check("danube-log", &ours("danube-env")), [""; 0]);
        assert_eq!(check("danube-sim", &ours("danube-broker")), [""; 0]);
    }

    #[test]
    fn an_edge_outside_the_design_is_a_problem() {
        assert_eq!(check("danube-model", &ours("danube-env")).len(), 1);
        assert_eq!(check("danube-log", &ours("danube-broker")).len(), 1);
    }

    #[test]
    fn the_product_does_not_import_what_serves_development() {
        assert_eq!(check("danube-cli", &ours("danube-e2e")).len(), 1);
        let for_tests = json!({ "name": "danube-e2e", "path": "/x", "kind": "dev" });
        assert_eq!(check("danube-cli", &for_tests), [""; 0]);
    }

    #[test]
    fn a_crates_tests_may_switch_on_more_of_it() {
        let for_tests = json!({ "name": "danube-env", "path": "/x", "kind": "dev" });
        assert_eq!(check("danube-env", &for_tests), [""; 0]);
    }

    #[test]
    fn a_crate_that_must_not_be_known_is_a_problem() {
        let tokio = json!({ "name": "tokio", "path": null, "kind": null });
        assert_eq!(check("danube-dispatch", &tokio).len(), 1);
        assert_eq!(check("danube-log", &tokio), [""; 0]);
    }

    #[test]
    fn an_unknown_crate_is_a_problem() {
        assert_eq!(check("danube-extra", &ours("danube-model")).len(), 1);
    }

    #[test]
    fn a_crate_without_the_lints_is_a_problem() {
        assert_eq!(manifest("a", "[lints]\nworkspace = true\n\n[dependencies]\n"), None);
        assert!(manifest("a", "[dependencies]\n").is_some());
    }
}
