//! Files of a stopped broker: copied, damaged, compared. The harness works on real files, past the product's own seams.
#![expect(clippy::disallowed_methods, reason = "the harness works on real files")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All files below a directory with their bytes, by their paths relative to it.
///
/// # Panics
///
/// If they can't be read.
#[must_use]
pub fn all(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    paths(directory).into_iter().map(|path| (path.clone(), read(&directory.join(path)))).collect()
}

/// The paths of all files below a directory, relative to it, sorted.
///
/// # Panics
///
/// If it can't be read.
#[must_use]
pub fn paths(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(below) = directories.pop() {
        let shown = directory.join(&below);
        let entries = std::fs::read_dir(&shown);
        for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", shown.display())) {
            let entry = entry.expect("an entry of a directory that can be read");
            let path = below.join(entry.file_name());
            let list = if entry.path().is_dir() { &mut directories } else { &mut found };
            list.push(path);
        }
    }
    found.sort();
    found
}

/// The bytes that the files below a directory take on the disk. One that goes meanwhile counts nothing.
///
/// # Panics
///
/// If it can't be read.
#[must_use]
pub fn bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let taken = |path: &PathBuf| Some(std::fs::metadata(directory.join(path)).ok()?.blocks() * 512);
    paths(directory).iter().filter_map(taken).sum()
}

/// The names in a directory.
///
/// # Panics
///
/// If it can't be read.
#[must_use]
pub fn names(directory: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.expect("a directory that can be read").file_name()).collect()
}

/// Writes files to a directory that is not there yet.
///
/// # Panics
///
/// If they can't be written.
pub fn put(directory: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, bytes) in files {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .and_then(|()| std::fs::write(&path, bytes))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// The bytes of a file.
///
/// # Panics
///
/// If it can't be read.
#[must_use]
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Puts a file with these bytes there, as far as there is room.
///
/// # Errors
///
/// If there is not room enough, or the file can't be written.
pub fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::write(path, bytes)
}

/// Removes a file.
///
/// # Panics
///
/// If it can't be removed.
pub fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
