//! The keys there are: one table, from which parsing, checks, suggestions and the reference follow.
//!
//! [`table`] holds the keys, [`storage`] those of its largest block. A key that is added there is read, shown, suggested
//! and documented; what it does stands where [`super::Config`] is built.

mod storage;
mod table;

use std::sync::LazyLock;

use super::value::Kind;

/// A setting.
#[derive(Debug)]
pub(super) struct Key {
    /// Where it stands in a file: names of blocks and its own, with dots between.
    pub(super) path: &'static str,
    /// Paths under which existing files have it.
    pub(super) aliases: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) fallback: Fallback,
    pub(super) support: Support,
    /// What it means, for the reference: a phrase, or sentences.
    pub(super) meaning: &'static str,
}

impl Key {
    /// A key that is in force and has no other names.
    const fn new(path: &'static str, kind: Kind, fallback: Fallback, meaning: &'static str) -> Key {
        Key { path, aliases: &[], kind, fallback, support: Support::Full, meaning }
    }

    const fn aliases(mut self, aliases: &'static [&'static str]) -> Key {
        self.aliases = aliases;
        self
    }

    const fn support(mut self, support: Support) -> Key {
        self.support = support;
        self
    }
}

/// What holds where a key is not set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fallback {
    /// This value, as it could be written.
    Value(&'static str),
    /// No value; what that amounts to.
    None(&'static str),
}

/// What this build makes of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Support {
    /// It is in force.
    Full,
    /// It is read, and there is nothing that it could act on, for want of this.
    Idle(&'static str),
    /// Only these values; others need this, which is lacking.
    Only(&'static [&'static str], &'static str),
    /// Its block can't be used, because this is lacking.
    Lacking(&'static str),
}

/// Blocks that existing files have elsewhere, and where they belong.
const BLOCK_ALIASES: [(&str, &str); 4] = [
    ("storage.object_store", "storage.durable"),
    ("storage.wal.file_sync", "storage.wal.advanced.file_sync"),
    ("storage.wal.retention", "storage.local_retention"),
    ("storage.wal.advanced.rotation", "storage.wal.rotation"),
];

/// The block whose other entries are options of the object store's client, passed through by name.
const CLIENT_OPTIONS: &str = "storage.durable";

/// A name this close to a known one is taken for a slip of the pen.
const SLIP_MAX: usize = 2;

/// What a path in a file stands for.
#[derive(Debug)]
pub(super) enum Found {
    Key(&'static Key),
    Block,
    /// An option of the object store's client.
    ClientOption,
    Unknown,
}

/// All keys, in the order of the reference.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    table::BEFORE_STORAGE.iter().chain(storage::STORAGE).chain(table::AFTER_STORAGE)
}

/// The key of this path, which is in the table.
///
/// # Panics
///
/// If it is not.
pub(super) fn key(path: &str) -> &'static Key {
    all().find(|key| key.path == path).unwrap_or_else(|| panic!("{path} is not in the table"))
}

/// What stands at a path of a file.
pub(super) fn find(path: &str) -> Found {
    let path = belonging(path);
    if let Some(key) = all().find(|key| key.path == path || key.aliases.contains(&path.as_str())) {
        return Found::Key(key);
    }
    if BLOCKS.contains(&path.as_str()) {
        return Found::Block;
    }
    match path.rsplit_once('.') {
        Some((CLIENT_OPTIONS, name)) if !is_slip(name) => Found::ClientOption,
        _ => Found::Unknown,
    }
}

/// All other paths of a key, those inside aliased blocks too.
pub(super) fn aliases(key: &Key) -> Vec<String> {
    let in_blocks = BLOCK_ALIASES.iter().filter_map(|(alias, block)| {
        let rest = key.path.strip_prefix(block)?.strip_prefix('.')?;
        Some(format!("{alias}.{rest}"))
    });
    key.aliases.iter().map(|alias| (*alias).to_owned()).chain(in_blocks).collect()
}

/// The known path that a wrong one was probably meant for; of a block where `is_block`.
pub(super) fn nearest(path: &str, is_block: bool) -> &'static str {
    let candidates = if is_block { &BLOCKS } else { &LEAVES };
    let nearest = candidates.iter().min_by_key(|candidate| difference(path, candidate));
    nearest.expect("there are keys")
}

/// How far apart two names are: letters to insert, remove, change or swap.
pub(super) fn edits(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(&one.to_lowercase(), &other.to_lowercase())
}

/// Every path of a key.
static LEAVES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    all().flat_map(|key| std::iter::once(key.path).chain(key.aliases.iter().copied())).collect()
});

/// Every path of a block.
static BLOCKS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut paths: Vec<&'static str> = BLOCK_ALIASES.iter().map(|(alias, _)| *alias).collect();
    for leaf in LEAVES.iter() {
        paths.extend(leaf.match_indices('.').map(|(at, _)| &leaf[..at]));
    }
    paths.sort_unstable();
    paths.dedup();
    paths
});

/// The path that belongs to one inside an aliased block.
fn belonging(path: &str) -> String {
    for (alias, block) in BLOCK_ALIASES {
        match path.strip_prefix(alias) {
            Some("") => return block.to_owned(),
            Some(rest) if rest.starts_with('.') => return format!("{block}{rest}"),
            _ => {}
        }
    }
    path.to_owned()
}

/// Whether a client option is nearly the name of a key of its block.
fn is_slip(name: &str) -> bool {
    let keys = all().filter_map(|key| key.path.strip_prefix(CLIENT_OPTIONS)?.strip_prefix('.'));
    keys.into_iter().any(|key| edits(name, key) <= SLIP_MAX)
}

/// How unlike two paths are. A right name in the wrong block is close, too.
fn difference(path: &str, known: &str) -> usize {
    let whole = edits(path, known);
    let name = |path: &str| path.rsplit_once('.').map_or(path, |(_, name)| name).to_owned();
    whole.min(2 * edits(&name(path), &name(known)) + 2)
}

#[cfg(test)]
mod tests {
    use super::super::value::Value;
    use super::*;

    #[test]
    fn paths_are_unique_and_defaults_are_valid() {
        let mut paths: Vec<&str> = LEAVES.clone();
        paths.sort_unstable();
        for pair in paths.windows(2) {
            assert_ne!(pair[0], pair[1]);
            assert!(!pair[1].starts_with(&format!("{}.", pair[0])), "{pair:?}");
        }
        for key in all() {
            if let Fallback::Value(text) = key.fallback {
                let value =
                    key.kind.parse(text).unwrap_or_else(|error| panic!("{}: {error}", key.path));
                let shown = value.to_string();
                assert!(key.kind.parse(&shown) == Ok(value), "{}: {shown}", key.path);
            }
            if let Support::Only(values, _) = key.support {
                for value in values {
                    let read = key.kind.parse(value).map(|value: Value| value.to_string());
                    assert!(read.as_deref() == Ok(value), "{}: {value}", key.path);
                }
            }
            assert!(key.meaning.len() > 5 && !key.meaning.contains('|'), "{}", key.path);
        }
    }

    #[test]
    fn aliases_lead_to_their_key() {
        for (alias, path) in [
            ("storage.root", "storage.local_wal_root"),
            ("storage.wal.dir", "storage.local_wal_root"),
            ("storage.metadata_root", "storage.metadata_prefix"),
            ("storage.wal.cache_capacity", "storage.wal.advanced.cache_capacity"),
            ("storage.wal.file_sync.interval_ms", "storage.wal.advanced.file_sync.interval_ms"),
            ("storage.wal.advanced.rotation.max_hours", "storage.wal.rotation.max_hours"),
            ("storage.wal.retention.size_mb", "storage.local_retention.size_mb"),
            ("storage.object_store.secret_key", "storage.durable.secret_key"),
        ] {
            assert!(matches!(find(alias), Found::Key(key) if key.path == path), "{alias}");
        }
        assert!(matches!(find("storage.object_store"), Found::Block));
    }

    #[test]
    fn a_wrong_path_is_near_to_the_right_one() {
        for (wrong, right) in [
            ("storage.durabilty", "storage.durability"),
            ("durability", "storage.durability"),
            ("Cluster_Name", "cluster_name"),
            ("broker.prots.client", "broker.ports.client"),
            ("storage.wal.max_bytes", "storage.wal.rotation.max_bytes"),
        ] {
            assert!(matches!(find(wrong), Found::Unknown), "{wrong}");
            assert_eq!(nearest(wrong, false), right, "{wrong}");
        }
        assert_eq!(nearest("storge", true), "storage");
    }

    #[test]
    fn options_of_the_object_stores_client_pass() {
        assert!(matches!(find("storage.durable.allow_http"), Found::ClientOption));
        assert!(matches!(find("storage.object_store.timeout"), Found::ClientOption));
        assert!(matches!(find("storage.durable.regoin"), Found::Unknown));
        assert!(matches!(find("storage.durable.a.b"), Found::Unknown));
    }
}
