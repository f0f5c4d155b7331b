//! `danube config`: settings, checked and shown.

use std::path::Path;

use danube_env::Disk;
use danube_env::disk::Open;
use danube_env::real::RealDisk;
use danube_server::config::{Config, Line, SettingsFile, Sources, as_file, reference};
use danube_server::metrics;
use serde_json::json;

use crate::arguments::{ConfigCommand, Format};
use crate::failure::{Failure, Result};
use crate::terminal::{self, Output};

/// A larger file is no file of settings.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(command: ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Check { file } => check(&file),
        ConfigCommand::Show { config, output } => show(config.as_deref(), output),
        ConfigCommand::Reference => print(&reference()),
        ConfigCommand::Metrics => print(&metrics::reference()),
    }
}

fn print(text: &str) -> Result<()> {
    let mut output = Output::new();
    output.bytes(text.as_bytes())?;
    output.flush()
}

fn check(file: &Path) -> Result<()> {
    let sources = Sources { file: Some(read_file(file)?), ..Sources::default() };
    let loaded = Config::load(&sources).map_err(|problems| Failure::new(problems.to_string()))?;
    let mut output = Output::new();
    output.line(format!("{}: ok", file.display()))?;
    for Line { path, value, note, .. } in loaded.settings.set() {
        let note = note.map_or(String::new(), |note| format!(" ({note})"));
        output.line(format!("  {path} = {value}{note}"))?;
    }
    output.flush()
}

fn show(file: Option<&Path>, format: Format) -> Result<()> {
    let file = file.map(read_file).transpose()?;
    let sources = Sources { file, environment: environment(), ..Sources::default() };
    let loaded = Config::load(&sources).map_err(|problems| Failure::new(problems.to_string()))?;
    for notice in loaded.settings.notices() {
        terminal::note(&format!("warning: {notice}"));
    }
    let lines = loaded.settings.effective();
    let mut output = Output::new();
    match format {
        Format::Text => output.bytes(as_file(&lines).as_bytes())?,
        Format::Json => {
            for Line { path, value, origin, note, .. } in &lines {
                output.json(
                    &json!({ "key": path, "value": value, "origin": origin, "note": note }),
                )?;
            }
        }
    }
    output.flush()
}

/// Reads a file of settings.
pub(crate) fn read_file(path: &Path) -> Result<SettingsFile> {
    let name = path.display().to_string();
    let read = || -> std::io::Result<Option<String>> {
        let file = RealDisk::new().open(path, Open::Read)?;
        let bytes = file.len()?;
        if bytes > FILE_BYTES_MAX {
            return Ok(None);
        }
        let mut text = vec![0; usize::try_from(bytes).expect("held against the limit")];
        let read = file.read_at(&mut text, 0)?;
        text.truncate(read);
        Ok(String::from_utf8(text).ok())
    };
    match read() {
        Ok(Some(text)) => Ok(SettingsFile { name, text }),
        Ok(None) => Err(Failure::new(format!("{name} is no file of settings"))),
        Err(error) => Err(Failure::new(format!("cannot read {name}: {error}"))),
    }
}

/// The environment of this process. What is not UTF-8 is no setting.
pub(crate) fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
