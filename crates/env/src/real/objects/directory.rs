//! A directory that is used as a bucket; usually on a file system that all brokers mount.
//!
//! A key is a path below it. Bytes are written to a file under `.uploads`, synced, and then get their name by a hard link,
//! which fails if the name is taken, or by a rename, which does not care; at last the directory of the name is synced. So a key
//! has all of its bytes or none, after a crash of a client, or of the server if its `fsync` means what it says, too.
//!
//! What a crash leaves under `.uploads` is removed by [`Directory::open`] once it is a day old.
#![expect(clippy::disallowed_methods, reason = "this is what the seam is for")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use crate::objects::{
    Answer, Created, Error, Kind, Listed, Objects, Part, PartId, UploadId, check_key,
};
use crate::real::{RealRandom, RealSpawn};
use crate::{Random, blocking};

/// See the module's text.
pub struct Directory {
    root: PathBuf,
    spawn: RealSpawn,
}

const UPLOADS: &str = ".uploads";
/// How often a directory may be gone when something is to get a name in it.
const RACES_MAX: usize = 100;
/// Nobody still writes what is as old.
const LEFT_OVER: Duration = Duration::from_secs(24 * 3600);

impl Directory {
    /// Uses the directory, which is made if it is not there, with those above it. Blocks.
    ///
    /// # Errors
    ///
    /// If it can't be made, or is not writable.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn open(root: &Path) -> io::Result<Directory> {
        let uploads = root.join(UPLOADS);
        fs::create_dir_all(&uploads)?;
        File::open(root)?.sync_all()?;
        for entry in fs::read_dir(&uploads)? {
            let entry = entry?;
            let age = entry.metadata().and_then(|found| found.modified()).map(|at| at.elapsed());
            if age.is_ok_and(|age| age.is_ok_and(|age| age > LEFT_OVER)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Directory { root: root.to_owned(), spawn: RealSpawn::new() })
    }

    /// Does something to the file of a key where it may block.
    fn at<'a, T: Send + 'static>(
        &'a self,
        what: &'static str,
        key: &'a str,
        body: impl FnOnce(Place) -> io::Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        let place = Place { root: self.root.clone(), path: self.root.join(key) };
        Box::pin(async move {
            check_key(what, key)?;
            blocking(&self.spawn, move || body(place))
                .await
                .map_err(|error| failed(what, key, error))
        })
    }
}

/// Where the bytes of a key are.
struct Place {
    root: PathBuf,
    path: PathBuf,
}

impl Place {
    fn temporary(&self, name: &str) -> PathBuf {
        self.root.join(UPLOADS).join(name)
    }

    /// Writes and syncs a file that has no key yet.
    fn write(&self, body: &[u8]) -> io::Result<PathBuf> {
        let path = self.temporary(&new_name());
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let written = file.write_all(body).and_then(|()| file.sync_all());
        written.inspect_err(|_| drop(fs::remove_file(&path)))?;
        Ok(path)
    }

    /// Makes the directories of the key, and their names durable.
    fn make_parents(&self) -> io::Result<()> {
        let missing: Vec<&Path> = self
            .path
            .ancestors()
            .skip(1)
            .take_while(|above| **above != *self.root && !above.exists())
            .collect();
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => sync_parent(directory)?,
            }
        }
        Ok(())
    }

    /// Gives a written file the key.
    fn name(&self, from: &Path, name: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
        for _ in 0..RACES_MAX {
            let named = self.make_parents().and_then(|()| name(from, &self.path));
            match named {
                // Who removed the last key of a directory removed that too.
                Err(error) if is_missing(&error) && from.exists() => {}
                named => return named.and_then(|()| sync_parent(&self.path)),
            }
        }
        Err(io::Error::other("the directory is removed again and again"))
    }

    fn listed(&self, path: &Path) -> io::Result<Listed> {
        let found = fs::metadata(path)?;
        let modified = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let key = path.strip_prefix(&self.root).ok().and_then(Path::to_str).unwrap_or_default();
        let modified_ms = modified.as_millis() as u64;
        Ok(Listed { key: key.to_owned(), bytes: found.len(), modified_ms })
    }

    /// Everything below a directory. What goes meanwhile may be missing.
    fn walk(&self, directory: &Path, found: &mut Vec<Listed>) -> io::Result<()> {
        let entries = match fs::read_dir(directory) {
            Err(error) if is_missing(&error) => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                self.walk(&path, found)?;
            } else if let Ok(listed) = self.listed(&path) {
                found.push(listed);
            }
        }
        Ok(())
    }
}

impl Objects for Directory {
    fn create<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, Created> {
        self.at("creating", key, move |place| {
            let written = place.write(&body)?;
            let named = place.name(&written, |from, to| fs::hard_link(from, to));
            // Left over, if that fails.
            let _ = fs::remove_file(&written);
            match named {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Created::Taken),
                named => named.map(|()| Created::Stored),
            }
        })
    }

    fn put<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, ()> {
        self.at("storing", key, move |place| {
            let written = place.write(&body)?;
            place.name(&written, |from, to| fs::rename(from, to))
        })
    }

    fn begin_upload<'a>(&'a self, key: &'a str) -> Answer<'a, UploadId> {
        self.at("beginning to upload", key, |place| {
            let name = new_name();
            File::create_new(place.temporary(&name))?;
            Ok(UploadId(name))
        })
    }

    fn upload_part<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        part: Part,
        body: Bytes,
    ) -> Answer<'a, PartId> {
        let upload = upload.0.clone();
        self.at("uploading a part of", key, move |place| {
            let file = OpenOptions::new().write(true).open(place.temporary(&upload))?;
            file.write_all_at(&body, part.position)?;
            Ok(PartId(String::new()))
        })
    }

    fn complete_upload<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        _parts: Vec<PartId>,
    ) -> Answer<'a, ()> {
        let upload = upload.0.clone();
        self.at("completing the upload of", key, move |place| {
            let whole = place.temporary(&upload);
            File::open(&whole)?.sync_all()?;
            place.name(&whole, |from, to| fs::rename(from, to))
        })
    }

    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> Answer<'a, ()> {
        let upload = upload.0.clone();
        self.at("aborting the upload of", key, move |place| remove(&place.temporary(&upload)))
    }

    fn get<'a>(&'a self, key: &'a str, bytes_max: u64) -> Answer<'a, Bytes> {
        Box::pin(async move {
            let read = self.at("reading", key, move |place| {
                let file = File::open(&place.path)?;
                let len = file.metadata()?.len();
                if len > bytes_max {
                    return Ok(None);
                }
                let mut bytes = vec![0; len as usize];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(Some(Bytes::from(bytes)))
            });
            read.await?.ok_or_else(|| Error::new("reading", key, Kind::TooLarge))
        })
    }

    fn read<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        self.at("reading", key, move |place| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            File::open(&place.path)?.read_exact_at(&mut bytes, range.start)?;
            Ok(bytes.into())
        })
    }

    fn find<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Listed>> {
        self.at("looking for", key, |place| match place.listed(&place.path) {
            Err(error) if is_missing(&error) => Ok(None),
            found => found.map(Some),
        })
    }

    fn list<'a>(
        &'a self,
        directory: &'a str,
        after: Option<&'a str>,
        at_most: usize,
    ) -> Answer<'a, Vec<Listed>> {
        let after = after.map(str::to_owned);
        self.at("listing", directory, move |place| {
            let mut found = Vec::new();
            place.walk(&place.path, &mut found)?;
            found.retain(|listed| after.as_ref().is_none_or(|after| listed.key > *after));
            found.sort_by(|one, other| one.key.cmp(&other.key));
            found.truncate(at_most);
            Ok(found)
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.at("removing", key, |place| {
            remove(&place.path)?;
            // Directories that became empty go too; one that did not, or that somebody is filling, stays.
            let above = place.path.ancestors().skip(1).take_while(|above| **above != *place.root);
            for directory in above {
                if fs::remove_dir(directory).is_err() {
                    return Ok(());
                }
            }
            Ok(())
        })
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !is_missing(&error) => Err(error),
        _ => Ok(()),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().expect("it is below the root"))?.sync_all()
}

fn new_name() -> String {
    format!("{:032x}", u128::from_be_bytes(RealRandom.next_id()))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn failed(what: &'static str, key: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Kind::NotFound,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Kind::Denied,
        ErrorKind::UnexpectedEof => Kind::Short,
        ErrorKind::Unsupported => Kind::Unsupported,
        _ => Kind::Unavailable,
    };
    Error::new(what, key, kind).because(error)
}
