//! The rules that only this project has. Each problem is a line that names the place and what to do.
//!
//! Every rule is a pure function over a text or over what `cargo metadata` says, with a case beside it that fails.

mod crates;
mod duplicates;
mod licences;
mod links;
mod sources;
mod texts;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::workspace::{Workspace, list};

/// Checks the whole tree; returns the problems.
pub(crate) fn run(workspace: &Workspace) -> Result<Vec<String>, String> {
    let packages = list(&workspace.metadata["packages"]);
    let files = read(workspace)?;
    let mut problems = crates::edges(packages);
    problems.extend(licences::check(packages));
    problems.extend(duplicates::check(packages));
    for (path, text) in &files {
        let shown = path.display().to_string();
        problems.extend(texts::check(&shown, text));
        if shown.ends_with(".rs") {
            problems.extend(sources::check(&shown, text));
        }
        if shown.starts_with("crates/") && path.ends_with("Cargo.toml") {
            problems.extend(crates::manifest(&shown, text));
        }
    }
    problems.extend(links::check(&files, |path| workspace.root.join(path).exists()));
    Ok(problems)
}

/// All files that people write, as text.
fn read(workspace: &Workspace) -> Result<Vec<(PathBuf, String)>, String> {
    let written = |path: &Path| !path.ends_with("Cargo.lock") && !path.ends_with("LICENSE");
    let mut texts = Vec::new();
    for path in workspace.files()?.into_iter().filter(|path| written(path)) {
        match std::fs::read_to_string(workspace.root.join(&path)) {
            Ok(text) => texts.push((path, text)),
            // Golden bytes and the like.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {}
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        }
    }
    Ok(texts)
}

/// A text field of `cargo metadata`; empty if it is absent.
fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
