//! The workspace as cargo and the file system describe it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Names that hold nothing of ours to read; `.git` is a file in some checkouts.
const SKIPPED: [&str; 5] =
    [".git", "target", "danube-data", "node_modules", "proptest-regressions"];

/// A checkout of the project.
pub(crate) struct Workspace {
    /// The directory of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// What `cargo metadata` prints, with the dependencies for this machine's platform.
    pub(crate) metadata: Value,
}

impl Workspace {
    /// Finds the checkout that this program was built from.
    pub(crate) fn open() -> Result<Self, String> {
        // `cargo run` sets it at run time too; the one from compile time serves when the program is called directly.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .ancestors()
            .nth(2)
            .ok_or_else(|| format!("{} is not inside the workspace", manifest.display()))?
            .to_path_buf();
        let metadata = metadata(&root)?;
        let target = PathBuf::from(text(&metadata, "target_directory")?);
        Ok(Self { root, target, metadata })
    }

    /// A cargo command that runs in the root and may not touch the lock file.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut command = cargo();
        command.arg(subcommand).current_dir(&self.root);
        if subcommand != "fmt" {
            command.arg("--locked");
        }
        command
    }

    /// The package that builds the binary `name`, if one does.
    pub(crate) fn package_of_binary(&self, name: &str) -> Option<&str> {
        let is_wanted = |target: &Value| {
            target["name"] == name && list(&target["kind"]).iter().any(|kind| kind == "bin")
        };
        list(&self.metadata["packages"])
            .iter()
            .find(|package| {
                package["source"].is_null() && list(&package["targets"]).iter().any(is_wanted)
            })
            .and_then(|package| package["name"].as_str())
    }

    /// All files of the tree as paths relative to the root, sorted.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, String> {
        let mut found = Vec::new();
        walk(&self.root, Path::new(""), &mut found)?;
        found.sort();
        Ok(found)
    }
}

/// The elements of a JSON array; none if it is anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn metadata(root: &Path) -> Result<Value, String> {
    let host = output(Command::new("rustc").arg("-vV"))?;
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc -vV names no host")?;
    let printed = output(
        cargo()
            .args(["metadata", "--locked", "--format-version=1", "--filter-platform", host])
            .current_dir(root),
    )?;
    serde_json::from_str(&printed).map_err(|error| format!("cargo metadata: {error}"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed with {}:\n{}", output.status, said.trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{name} printed {error}"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("cargo metadata has no text `{key}`"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a development tool that reads the tree it stands in"
)]
fn walk(root: &Path, directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let shown = root.join(directory);
    let failed = |error: std::io::Error| format!("cannot list {}: {error}", shown.display());
    for entry in std::fs::read_dir(&shown).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = directory.join(entry.file_name());
        if SKIPPED.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_dir() {
            walk(root, &path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}
