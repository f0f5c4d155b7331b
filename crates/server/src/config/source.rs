//! Where settings come from: a YAML file, the environment, flags. Each becomes a list of paths and what they say.

use serde_yaml_ng::Value as Yaml;

use super::keys;
use super::value::Raw;
use super::{Error, Result};

/// What every variable begins with.
const PREFIX: &str = "DANUBE_";
/// Variables of the command line, which are not settings of a server.
const COMMAND_LINE: [&str; 6] =
    ["DANUBE_URL", "DANUBE_TOKEN", "DANUBE_CA", "DANUBE_CERT", "DANUBE_KEY_FILE", "DANUBE_OUTPUT"];

/// A setting as it stands in its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// As the source has it, so an older name is possible.
    pub(crate) path: String,
    pub(crate) raw: Raw,
    /// For messages: `broker.yml`, `DANUBE_CLUSTER_NAME`, `--listen`.
    pub(crate) origin: String,
}

/// Reads a file.
///
/// # Errors
/// [`Error::Yaml`] if it is not YAML of the right shape; [`Error::UnknownKey`].
pub(crate) fn from_file(name: &str, text: &str) -> Result<Vec<Entry>> {
    let root: Yaml = serde_yaml_ng::from_str(text)
        .map_err(|source| Error::Yaml { file: name.to_owned(), source })?;
    let mut entries = Vec::new();
    walk(name, "", &root, &mut entries)?;
    Ok(entries)
}

fn walk(file: &str, path: &str, value: &Yaml, entries: &mut Vec<Entry>) -> Result<()> {
    let raw = match value {
        // A key with nothing behind it says nothing.
        Yaml::Null => {
            return if path.is_empty() || keys::is_block(path) || keys::find(path).is_some() {
                Ok(())
            } else {
                Err(unknown(file, path))
            };
        }
        Yaml::Mapping(mapping) => {
            if !path.is_empty() && !keys::is_block(path) {
                return Err(unknown(file, path));
            }
            for (key, value) in mapping {
                let key = scalar(key).ok_or_else(|| unknown(file, path))?;
                let below = if path.is_empty() { key } else { format!("{path}.{key}") };
                walk(file, &below, value, entries)?;
            }
            return Ok(());
        }
        Yaml::Sequence(items) => {
            let items: Option<Vec<String>> = items.iter().map(scalar).collect();
            Raw::List(items.ok_or_else(|| Error::Value {
                path: path.to_owned(),
                origin: file.to_owned(),
                problem: "holds more than plain values".to_owned(),
            })?)
        }
        value => Raw::Scalar(scalar(value).ok_or_else(|| unknown(file, path))?),
    };
    if keys::find(path).is_none() {
        return Err(unknown(file, path));
    }
    entries.push(Entry { path: path.to_owned(), raw, origin: file.to_owned() });
    Ok(())
}

fn scalar(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) => Some(text.clone()),
        Yaml::Number(number) => Some(number.to_string()),
        Yaml::Bool(on) => Some(on.to_string()),
        Yaml::Null | Yaml::Sequence(_) | Yaml::Mapping(_) | Yaml::Tagged(_) => None,
    }
}

fn unknown(file: &str, path: &str) -> Error {
    Error::UnknownKey {
        path: path.to_owned(),
        origin: file.to_owned(),
        nearest: keys::nearest(path),
    }
}

/// Reads the environment. Only names that are a key's count; the others that begin with `DANUBE_` and are near one come back
/// as warnings.
pub(crate) fn from_environment(
    variables: impl IntoIterator<Item = (String, String)>,
) -> (Vec<Entry>, Vec<String>) {
    let mut entries = Vec::new();
    let mut warnings = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if COMMAND_LINE.contains(&name.as_str()) {
            continue;
        }
        let path = rest.to_ascii_lowercase().replace("__", ".");
        if keys::find(&path).is_some() {
            entries.push(Entry { path, raw: Raw::Scalar(value), origin: name });
        } else if let Some(nearest) = keys::nearest(&path) {
            warnings.push(format!("{name} is not a setting; did you mean {}?", variable(nearest)));
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    (entries, warnings)
}

/// The variable of a key.
pub(crate) fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.to_ascii_uppercase().replace('.', "__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        from_file("f", text).unwrap().into_iter().map(|entry| entry.path).collect()
    }

    #[test]
    fn nested_keys_become_paths() {
        let text =
            "cluster_name: c\nbroker:\n  ports:\n    client: 1\nmeta_store: {seed_nodes: [a, b]}";
        let expected = ["cluster_name", "broker.ports.client", "meta_store.seed_nodes"];
        assert_eq!(paths(text), expected);
        assert!(paths("storage:\n  durable:\nauth: {}\n").is_empty());
    }

    #[test]
    fn unknown_keys_are_refused_at_any_depth_with_the_nearest_one() {
        for (text, path, nearest) in [
            ("clustername: x", "clustername", Some("cluster_name")),
            ("broker: {port: {client: 1}}", "broker.port", Some("broker.host")),
            (
                "storage: {wal: {rotation: {max_byte: 1}}}",
                "storage.wal.rotation.max_byte",
                Some("storage.wal.rotation.max_bytes"),
            ),
            ("cluster_name: {a: 1}", "cluster_name", Some("cluster_name")),
            ("storage: {durable: {a: {b: 1}}}", "storage.durable.a", Some("storage.durable.root")),
            ("quite_something_else: ", "quite_something_else", None),
        ] {
            match from_file("f", text).unwrap_err() {
                Error::UnknownKey { path: found, nearest: suggested, .. } => {
                    assert_eq!(
                        (found.as_str(), suggested.is_some()),
                        (path, nearest.is_some()),
                        "{text}"
                    );
                }
                error => panic!("{text}: {error:?}"),
            }
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_refused() {
        assert!(matches!(
            from_file("f", "admin_tls: true\nadmin_tls: false"),
            Err(Error::Yaml { .. })
        ));
    }

    #[test]
    fn only_names_of_keys_count_in_the_environment_and_near_misses_are_warned_of() {
        let variable = |name: &str| (name.to_owned(), "disk".to_owned());
        let names = [
            "DANUBE_STORAGE__DURABILITY",
            "DANUBE_STORAGE_DURABILITY",
            "DANUBE_URL",
            "DANUBE_X",
            "PATH",
        ];
        let (entries, warnings) = from_environment(names.map(variable));
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].path, "storage.durability");
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("DANUBE_STORAGE__DURABILITY"), "{warnings:?}");
    }
}
