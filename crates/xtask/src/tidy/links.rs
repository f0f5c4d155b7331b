//! Links between documents, and mentions of documents in code: what they name must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Problems of the links of all documents and sources. `exists` is asked for paths relative to the root.
pub(super) fn check(files: &[(PathBuf, String)], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let is_document = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let anchors: BTreeMap<&Path, BTreeSet<String>> = files
        .iter()
        .filter(|(path, _)| is_document(path))
        .map(|(path, text)| (path.as_path(), anchors(text)))
        .collect();
    let mut problems = Vec::new();
    for (path, text) in files {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        for (at, line) in prose(text) {
            let mut report = |target: &str, why: &str| {
                problems.push(format!("{}:{at}: link to `{target}`: {why}", path.display()));
            };
            if is_document(path) {
                for target in targets(line) {
                    if let Err(why) = resolve(path, target, &anchors, &exists) {
                        report(target, why);
                    }
                }
            }
            if is_document(path) || is_source {
                for mention in mentions(line).filter(|mention| !exists(Path::new(mention))) {
                    report(mention, "no such file");
                }
            }
        }
    }
    problems
}

fn resolve(
    from: &Path,
    target: &str,
    anchors: &BTreeMap<&Path, BTreeSet<String>>,
    exists: impl Fn(&Path) -> bool,
) -> Result<(), &'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let directory = from.parent().unwrap_or(Path::new(""));
    let path = if file.is_empty() { from.to_path_buf() } else { directory.join(file) };
    let path = normal(&path).ok_or("leads out of the tree")?;
    if !exists(&path) {
        return Err("no such file");
    }
    if !anchor.is_empty() && !anchors.get(path.as_path()).is_some_and(|all| all.contains(anchor)) {
        return Err("no such heading");
    }
    Ok(())
}

/// A path without `.` and `..`; none if it leads out of the tree.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

/// Lines outside fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((at + 1, line))
    })
}

/// The targets of `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
}

/// Files under `docs/` that are named by their path from the root.
fn mentions(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    line.match_indices("docs/").filter_map(move |(at, _)| {
        if line[..at].chars().next_back().is_some_and(is_path) {
            return None;
        }
        let rest = &line[at..];
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        Some(rest[..end].trim_end_matches('.'))
    })
}

/// The anchors of a document's headings, as the usual viewers make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then(|| anchor(title.trim()))
    };
    prose(text).filter_map(|(_, line)| heading(line)).collect()
}

fn anchor(title: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    title
        .to_lowercase()
        .chars()
        .filter(|c| kept(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let files = [
            (PathBuf::from("docs/format.md"), "## 3. The data directory\n".to_owned()),
            (PathBuf::from(path), text.to_owned()),
        ];
        check(&files, |path| path == Path::new("docs/format.md") || path == Path::new("README.md"))
    }

    #[test]
    fn links_that_resolve_pass() {
        for text in [
            "[a](docs/format.md)",
            "[a](./docs/../docs/format.md#3-the-data-directory)",
            "[a](https://example.com/x)",
            "see `docs/format.md`.",
            "```\n[a](nowhere.md)\n```",
        ] {
            assert_eq!(problems("README.md", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_problems() {
        for text in [
            "[a](nowhere.md)",
            "[a](../outside.md)",
            "[a](docs/format.md#no-such-heading)",
            "[a](#no-such-heading)",
            concat!("see `doc", "s/nowhere.md`"),
        ] {
            assert_eq!(problems("README.md", text).len(), 1, "{text}");
        }
        assert_eq!(
            problems("crates/log/src/lib.rs", concat!("//! See doc", "s/gone.md.")).len(),
            1
        );
    }
}
