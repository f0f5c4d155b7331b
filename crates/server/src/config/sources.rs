//! Where settings come from: a file, the environment, the command line. Later ones override earlier ones.

use std::collections::BTreeSet;

use super::keys::{self, Found, Key};
use super::problem::{Notice, Place, Problem};
use super::yaml::{self, Content, Node};

/// What every variable for a setting begins with.
const PREFIX: &str = "DANUBE_";
/// Two variables this close are taken for the same.
const SLIP_MAX: usize = 2;

/// A file of settings.
#[derive(Clone, Debug)]
pub struct SettingsFile {
    /// Its name as the user gave it, for messages.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// What the command line says of settings. Addresses are `host:port`.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--data-dir`.
    pub data_dir: Option<String>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--admin-listen`.
    pub admin_listen: Option<String>,
    /// `--http-listen`.
    pub http_listen: Option<String>,
    /// `--raft-listen`.
    pub raft_listen: Option<String>,
    /// `--advertise`.
    pub advertise: Option<String>,
    /// `--join`.
    pub join: Vec<String>,
}

/// All that settings are read from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file, if one was named.
    pub file: Option<SettingsFile>,
    /// The environment: names and values. Those that do not begin with `DANUBE_` are ignored.
    pub environment: Vec<(String, String)>,
    /// The command line.
    pub flags: Flags,
}

/// A key that was given a value.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) key: &'static Key,
    /// The path, variable or flag that it was given under.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) input: Input,
}

/// What was given.
#[derive(Debug)]
pub(super) enum Input {
    Text(String),
    List(Vec<String>),
}

/// What was found in the sources.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// In the order in which later ones override earlier ones.
    pub(super) given: Vec<Given>,
    pub(super) problems: Vec<Problem>,
    pub(super) notices: Vec<Notice>,
}

impl Reading {
    /// Reads all sources.
    pub(super) fn of(sources: &Sources) -> Reading {
        let mut reading = Reading::default();
        if let Some(file) = &sources.file {
            reading.file(file);
        }
        reading.environment(&sources.environment);
        reading.flags(&sources.flags);
        reading
    }

    fn file(&mut self, file: &SettingsFile) {
        match yaml::parse(&file.text) {
            Ok(Node { content: Content::Null, .. }) => {}
            Ok(Node { content: Content::Block(entries), .. }) => {
                self.block(&file.name, "", entries);
            }
            Ok(Node { line, .. }) => self.problem(&file.name, line, "not a block of settings"),
            Err(fault) => self.problem(&file.name, fault.line, fault.what),
        }
    }

    /// Reads the entries of the block at `path`, the empty one for the whole file.
    fn block(&mut self, file: &str, path: &str, entries: Vec<(yaml::Name, Node)>) {
        let mut names = BTreeSet::new();
        for (name, node) in entries {
            let path = match path {
                "" => name.text.clone(),
                block => format!("{block}.{}", name.text),
            };
            if names.insert(name.text) {
                self.entry(file, name.line, path, node);
            } else {
                self.problem(file, name.line, format!("`{path}` is there twice"));
            }
        }
    }

    fn entry(&mut self, file: &str, line: usize, path: String, node: Node) {
        let is_block = matches!(node.content, Content::Block(_));
        let found = keys::find(&path);
        match (found, node.content) {
            (Found::Unknown, _) => {
                let nearest = keys::nearest(&path, is_block);
                self.problem(
                    file,
                    line,
                    format!("unknown key `{path}`, the nearest is `{nearest}`"),
                );
            }
            // Nothing is said, as if the line were not there.
            (_, Content::Null) | (Found::ClientOption, Content::Scalar(_)) => {}
            (Found::Block, Content::Block(entries)) => self.block(file, &path, entries),
            (Found::Block, _) => self.problem(file, line, format!("`{path}` is a block of keys")),
            (Found::Key(_) | Found::ClientOption, Content::Block(_)) => {
                self.problem(file, line, format!("`{path}` is one value, not a block of keys"));
            }
            (Found::ClientOption, Content::List(_)) => {
                self.problem(file, line, format!("`{path}` is one value, not a list"));
            }
            (Found::Key(key), Content::Scalar(text)) => {
                let place = Place::File { file: file.to_owned(), line };
                self.given.push(Given { key, name: path, place, input: Input::Text(text) });
            }
            (Found::Key(key), Content::List(items)) => self.list(file, line, key, path, items),
        }
    }

    fn list(&mut self, file: &str, line: usize, key: &'static Key, path: String, items: Vec<Node>) {
        let mut texts = Vec::new();
        for item in items {
            match item.content {
                Content::Scalar(text) => texts.push(text),
                Content::Null | Content::List(_) | Content::Block(_) => {
                    self.problem(file, item.line, format!("`{path}` takes single values"));
                    return;
                }
            }
        }
        let place = Place::File { file: file.to_owned(), line };
        self.given.push(Given { key, name: path, place, input: Input::List(texts) });
    }

    fn environment(&mut self, environment: &[(String, String)]) {
        let mut variables: Vec<&(String, String)> = environment.iter().collect();
        variables.sort_unstable();
        for (name, value) in variables {
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            let path = rest.replace("__", ".").to_lowercase();
            match keys::find(&path) {
                Found::Key(key) if variable(&path) == *name => {
                    let place = Place::Environment { name: name.clone() };
                    let input = Input::Text(value.clone());
                    self.given.push(Given { key, name: name.clone(), place, input });
                }
                Found::ClientOption => {}
                Found::Key(_) | Found::Block | Found::Unknown => {
                    if let Some(meant) = near_miss(name, &path) {
                        let text = format!(
                            "{name} in the environment is no setting; did you mean {meant}?"
                        );
                        self.notices.push(Notice(text));
                    }
                }
            }
        }
    }

    fn flags(&mut self, flags: &Flags) {
        let mut set = |flag: &'static str, path: &str, input: Input| {
            let key = keys::key(path);
            let place = Place::Flag { flag };
            self.given.push(Given { key, name: flag.to_owned(), place, input });
        };
        if let Some(dir) = &flags.data_dir {
            let under = |name: &str| {
                let path = std::path::Path::new(dir).join(name);
                Input::Text(path.to_string_lossy().into_owned())
            };
            set("--data-dir", "storage.local_wal_root", under(super::WAL));
            set("--data-dir", "meta_store.data_dir", under(super::RAFT));
        }
        if let Some(url) = &flags.advertise {
            for path in ["broker_url", "connect_url"] {
                let path = format!("broker.advertised_listeners.{path}");
                set("--advertise", &path, Input::Text(url.clone()));
            }
        }
        if !flags.join.is_empty() {
            set("--join", "meta_store.seed_nodes", Input::List(flags.join.clone()));
        }
    }

    fn problem(&mut self, file: &str, line: usize, what: impl Into<String>) {
        let place = Place::File { file: file.to_owned(), line };
        self.problems.push(Problem { place: Some(place), what: what.into() });
    }
}

/// The variable for the key at a path.
pub(super) fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_uppercase())
}

/// The variable that was probably meant by one that is no setting; none if it is likely for something else.
fn near_miss(name: &str, path: &str) -> Option<String> {
    let plain = |name: &str| name.replace(['_', '.'], "").to_lowercase();
    let nearest = keys::nearest(path, false);
    let in_a_block =
        path.split_once('.').is_some_and(|(block, _)| matches!(keys::find(block), Found::Block));
    let meant = variable(nearest);
    let is_near = in_a_block || keys::edits(&plain(name), &plain(&meant)) <= SLIP_MAX;
    is_near.then_some(meant)
}
