//! Settings as text: as a file that can be used again, and as the reference.

use std::fmt::Write;

use super::keys::{self, Fallback, Key, Support};
use super::settings::Line;
use super::value::Kind;

/// A file with these settings, each with its origin behind it. Secrets are hidden, so that they must be filled in.
pub fn as_file(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    for line in lines {
        let mut blocks: Vec<&str> = line.path.split('.').collect();
        let name = blocks.pop().expect("a path has a name");
        let common = open.iter().zip(&blocks).take_while(|(open, block)| open == block).count();
        open.truncate(common);
        for block in &blocks[common..] {
            writeln!(text, "{:indent$}{block}:", "", indent = 2 * open.len()).expect(TO_STRING);
            open.push(block);
        }
        let indent = 2 * open.len();
        writeln!(text, "{:indent$}{name}: {} # {}", "", line.yaml, line.origin).expect(TO_STRING);
    }
    text
}

const TO_STRING: &str = "a string takes all that fits into memory";

/// The reference of all keys, as Markdown.
pub fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    let keys: Vec<&Key> = keys::all().collect();
    for section in keys.chunk_by(|one, other| block(one) == block(other)) {
        let title = match block(section[0]) {
            "" => "At the top".to_owned(),
            block => format!("`{block}`"),
        };
        write!(text, "\n## {title}\n\n").expect(TO_STRING);
        let note = support(section[0]);
        let is_common = section.len() > 1 && section.iter().all(|key| support(key) == note);
        if let Some(note) = note.filter(|_| is_common) {
            write!(text, "*{note}*\n\n").expect(TO_STRING);
        }
        text.push_str("| key | takes | default | meaning |\n| --- | --- | --- | --- |\n");
        for key in section {
            let note = support(key).filter(|_| !is_common);
            writeln!(text, "{}", row(key, note)).expect(TO_STRING);
        }
    }
    text
}

/// The block that a key is shown under: two levels of `storage`, else one.
fn block(key: &Key) -> &str {
    let levels = if key.path.starts_with("storage.") { 2 } else { 1 };
    let ends = key.path.match_indices('.').map(|(at, _)| at);
    ends.take(levels).last().map_or("", |end| &key.path[..end])
}

/// What this build makes of a key, as a sentence.
fn support(key: &Key) -> Option<String> {
    match key.support {
        Support::Full => None,
        Support::Idle(what) => Some(format!("Without effect in this build: it needs {what}.")),
        Support::Only(["[]"], what) => Some(format!("Empty in this build: others need {what}.")),
        Support::Only(values, what) => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            let values = values.join(" or ");
            Some(format!("Only {values} in this build: the rest needs {what}."))
        }
        Support::Lacking(what) => Some(format!("Refused by this build: it needs {what}.")),
    }
}

fn row(key: &Key, note: Option<String>) -> String {
    let fallback = match key.fallback {
        Fallback::Value(value) => format!("`{value}`"),
        Fallback::None(words) => words.to_owned(),
    };
    let mut meaning = key.meaning.to_owned();
    if matches!(key.kind, Kind::Secret) {
        meaning.push_str(" Secret.");
    }
    let aliases: Vec<String> =
        keys::aliases(key).iter().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        write!(meaning, " Also {}.", aliases.join(", ")).expect(TO_STRING);
    }
    if let Some(note) = note {
        write!(meaning, " *{note}*").expect(TO_STRING);
    }
    format!("| `{}` | {} | {fallback} | {meaning} |", key.path, key.kind.takes())
}

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by `danube config reference`. Edit the table in crates/server/src/config/keys instead. -->

Every setting of `danube server`. A file (`--config FILE`) is YAML; what a path writes with dots is nested there:

```yaml
cluster_name: my-cluster
storage:
  durability: disk
  wal:
    rotation:
      max_bytes: 512MiB
```

Each setting can also come from the environment, as `DANUBE_` and its path in capitals with two underscores for each dot:
`DANUBE_STORAGE__DURABILITY=page_cache`; a list is separated by commas. Flags override the environment, the environment
overrides the file, and the file overrides the defaults.

Sizes are bytes or have a unit (`512MiB`, `1GB`). Times have a unit (`250ms`, `30s`, `7d`). A key whose name tells a unit (`max_hours`) also
takes a plain number of it, with a fraction if need be (`max_hours: 0.5`), beside any time or size with a unit (`max_hours: 90s`).

A key in the file that is not listed here refuses the start, and so does one that needs what this build lacks, wherever it was said. Of the
environment, only names that match a key count; one that nearly does is warned of. `danube config check FILE` lists all that
is wrong with a file, `danube config show` what is in force and where it was said. Secrets are never shown.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_in_step() {
        let written = include_str!("../../../../docs/reference/configuration.md");
        assert!(
            written == reference(),
            "run: cargo run -- config reference > docs/reference/configuration.md"
        );
    }
}
