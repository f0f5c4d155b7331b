//! A bucket of an object store, reached by the `object_store` crate.
//!
//! The crate's own tries are switched off: see [`crate::objects`]. Whatever it says is kept as text without what
//! grants access: some stores take signatures in the URL.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::multipart::{MultipartStore, PartId as StoredPart};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutOptions, PutPayload, RetryConfig,
};

use crate::objects::{
    Answer, Created, Error, Kind, Listed, Objects, Part, PartId, UploadId, check_key,
};

/// Which protocol a bucket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Amazon S3, and what is compatible with it.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azblob,
}

/// Where a bucket is, and how it is reached.
#[derive(Clone)]
pub struct BucketSettings {
    /// Its protocol.
    pub backend: Backend,
    /// Name of the bucket or container.
    pub bucket: String,
    /// Where everything lies in it: a key, or nothing.
    pub prefix: String,
    /// Options of the crate's clients, by their names without a prefix, such as `region` or `proxy_url`. They go before what the
    /// environment says.
    pub options: BTreeMap<String, String>,
    /// How long one request may take.
    pub request_timeout: Duration,
}

/// See the module's text.
pub struct Bucket {
    store: Arc<dyn Store>,
    prefix: String,
}

/// What the clients of all protocols are.
trait Store: ObjectStore + MultipartStore {}
impl<T: ObjectStore + MultipartStore> Store for T {}

/// An option has a name that no client knows, or a value that it doesn't take.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// No client of this protocol has an option of this name.
    #[error("{0} is not an option of this object store")]
    UnknownOption(String),
    /// The options don't make a client.
    #[error("the object store can't be used as it is configured")]
    Unusable(#[source] Said),
}

/// What somebody else's library said.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Said(String);

impl Said {
    fn of(error: &dyn std::error::Error) -> Said {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            // Many say what their cause says, too.
            let said = error.to_string();
            if !text.contains(&said) {
                let _ = write!(text, ": {said}");
            }
            cause = error.source();
        }
        Said(without_secrets(&text))
    }
}

/// Parameters of URLs that grant access.
const SECRET_PARAMETERS: [&str; 5] =
    ["sig=", "X-Amz-Signature=", "X-Amz-Credential=", "X-Amz-Security-Token=", "X-Goog-Signature="];

fn without_secrets(text: &str) -> String {
    let mut text = text.to_owned();
    for parameter in SECRET_PARAMETERS {
        let mut from = 0;
        while let Some(at) = text[from..].find(parameter) {
            let start = from + at + parameter.len();
            let is_end = |byte: char| byte == '&' || byte == '"' || byte.is_whitespace();
            let end = text[start..].find(is_end).map_or(text.len(), |len| start + len);
            text.replace_range(start..end, "***");
            from = start;
        }
    }
    text
}

impl Bucket {
    /// Makes a client. Nothing is asked of the store yet.
    ///
    /// # Errors
    ///
    /// If the options don't make one.
    pub fn new(settings: &BucketSettings) -> Result<Bucket, SettingsError> {
        // Whoever comes first installs it; another one does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = match settings.backend {
            Backend::S3 => s3(settings)?,
            Backend::Gcs => gcs(settings)?,
            Backend::Azblob => azblob(settings)?,
        };
        Ok(Bucket { store, prefix: settings.prefix.clone() })
    }

    /// Whether a client of this protocol has an option of this name.
    #[must_use]
    pub fn has_option(backend: Backend, name: &str) -> bool {
        match backend {
            Backend::S3 => AmazonS3ConfigKey::from_str(name).is_ok(),
            Backend::Gcs => GoogleConfigKey::from_str(name).is_ok(),
            Backend::Azblob => AzureConfigKey::from_str(name).is_ok(),
        }
    }

    fn path(&self, what: &'static str, key: &str) -> Result<Path, Error> {
        check_key(what, key)?;
        let whole =
            if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) };
        Path::parse(whole).map_err(|_| Error::new(what, key, Kind::Unsupported))
    }

    fn listed(&self, meta: ObjectMeta) -> Listed {
        let whole = meta.location.as_ref();
        let below = whole.strip_prefix(&self.prefix).unwrap_or(whole);
        let key = below.strip_prefix('/').unwrap_or(below).to_owned();
        let modified_ms = meta.last_modified.timestamp_millis().try_into().unwrap_or_default();
        Listed { key, bytes: meta.size, modified_ms }
    }

    async fn store(
        &self,
        what: &'static str,
        key: &str,
        body: Bytes,
        mode: PutMode,
    ) -> Result<Created, Error> {
        let path = self.path(what, key)?;
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(&path, PutPayload::from(body), options).await {
            Ok(_) => Ok(Created::Stored),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(Created::Taken),
            Err(error) => Err(failed(what, key, &error)),
        }
    }
}

macro_rules! client {
    ($name:ident, $builder:ty, $key:ty, $bucket:ident) => {
        fn $name(settings: &BucketSettings) -> Result<Arc<dyn Store>, SettingsError> {
            let mut builder = <$builder>::from_env();
            for (name, value) in defaults(settings).iter().chain(&settings.options) {
                let unknown = |_| SettingsError::UnknownOption(name.clone());
                builder = builder.with_config(<$key>::from_str(name).map_err(unknown)?, value);
            }
            let builder = builder.$bucket(&settings.bucket).with_retry(no_retries());
            let built = builder.build();
            built
                .map(|store| Arc::new(store) as Arc<dyn Store>)
                .map_err(|error| SettingsError::Unusable(Said::of(&error)))
        }
    };
}

client!(s3, AmazonS3Builder, AmazonS3ConfigKey, with_bucket_name);
client!(gcs, GoogleCloudStorageBuilder, GoogleConfigKey, with_bucket_name);
client!(azblob, MicrosoftAzureBuilder, AzureConfigKey, with_container_name);

/// What the options may change.
fn defaults(settings: &BucketSettings) -> BTreeMap<String, String> {
    let timeout = format!("{}ms", settings.request_timeout.as_millis());
    [(ClientConfigKey::Timeout, timeout), (ClientConfigKey::ConnectTimeout, "5s".to_owned())]
        .map(|(key, value)| (key.as_ref().to_owned(), value))
        .into()
}

fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, backoff: BackoffConfig::default() }
}

impl Objects for Bucket {
    fn create<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, Created> {
        Box::pin(self.store("creating", key, body, PutMode::Create))
    }

    fn put<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, ()> {
        Box::pin(async { self.store("storing", key, body, PutMode::Overwrite).await.map(|_| ()) })
    }

    fn begin_upload<'a>(&'a self, key: &'a str) -> Answer<'a, UploadId> {
        let what = "beginning to upload";
        Box::pin(async move {
            let begun = self.store.create_multipart(&self.path(what, key)?).await;
            begun.map(UploadId).map_err(|error| failed(what, key, &error))
        })
    }

    fn upload_part<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        part: Part,
        body: Bytes,
    ) -> Answer<'a, PartId> {
        let what = "uploading a part of";
        Box::pin(async move {
            let path = self.path(what, key)?;
            let stored = self.store.put_part(&path, &upload.0, part.number, body.into()).await;
            stored.map(|part| PartId(part.content_id)).map_err(|error| failed(what, key, &error))
        })
    }

    fn complete_upload<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        parts: Vec<PartId>,
    ) -> Answer<'a, ()> {
        let what = "completing the upload of";
        let parts = parts.into_iter().map(|part| StoredPart { content_id: part.0 }).collect();
        Box::pin(async move {
            let path = self.path(what, key)?;
            let completed = self.store.complete_multipart(&path, &upload.0, parts).await;
            completed.map(|_| ()).map_err(|error| failed(what, key, &error))
        })
    }

    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> Answer<'a, ()> {
        let what = "aborting the upload of";
        Box::pin(async move {
            let aborted = self.store.abort_multipart(&self.path(what, key)?, &upload.0).await;
            match aborted.map_err(|error| failed(what, key, &error)) {
                Err(Error { kind: Kind::NotFound, .. }) => Ok(()),
                aborted => aborted,
            }
        })
    }

    fn get<'a>(&'a self, key: &'a str, bytes_max: u64) -> Answer<'a, Bytes> {
        let what = "reading";
        Box::pin(async move {
            let path = self.path(what, key)?;
            let got = self.store.get_opts(&path, GetOptions::default()).await;
            let got = got.map_err(|error| failed(what, key, &error))?;
            if got.meta.size > bytes_max {
                return Err(Error::new(what, key, Kind::TooLarge));
            }
            let expected = got.meta.size;
            let bytes = got.bytes().await.map_err(|error| failed(what, key, &error))?;
            exact(what, key, bytes, expected)
        })
    }

    fn read<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        let what = "reading";
        Box::pin(async move {
            let path = self.path(what, key)?;
            let expected = range.end - range.start;
            let range = Some(GetRange::Bounded(range));
            let options = GetOptions { range, ..GetOptions::default() };
            let got = self.store.get_opts(&path, options).await;
            let got = got.map_err(|error| failed(what, key, &error))?;
            // A store may send all when asked for a part.
            if got.range.end - got.range.start > expected {
                return Err(Error::new(what, key, Kind::Unsupported));
            }
            let bytes = got.bytes().await.map_err(|error| failed(what, key, &error))?;
            exact(what, key, bytes, expected)
        })
    }

    fn find<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Listed>> {
        let what = "looking for";
        Box::pin(async move {
            match self.store.head(&self.path(what, key)?).await {
                Ok(meta) => Ok(Some(self.listed(meta))),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(failed(what, key, &error)),
            }
        })
    }

    fn list<'a>(
        &'a self,
        directory: &'a str,
        after: Option<&'a str>,
        at_most: usize,
    ) -> Answer<'a, Vec<Listed>> {
        let what = "listing";
        Box::pin(async move {
            let path = self.path(what, directory)?;
            let mut listing = match after {
                Some(after) => self.store.list_with_offset(Some(&path), &self.path(what, after)?),
                None => self.store.list(Some(&path)),
            };
            let mut found = Vec::new();
            while found.len() < at_most {
                let next = listing.try_next().await;
                let Some(meta) = next.map_err(|error| failed(what, directory, &error))? else {
                    break;
                };
                let listed = self.listed(meta);
                // Some begin at the first key whatever they are asked for.
                if after.is_none_or(|after| listed.key.as_str() > after) {
                    found.push(listed);
                }
            }
            Ok(found)
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        let what = "removing";
        Box::pin(async move {
            match self.store.delete(&self.path(what, key)?).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                removed => removed.map_err(|error| failed(what, key, &error)),
            }
        })
    }
}

fn exact(what: &'static str, key: &str, bytes: Bytes, expected: u64) -> Result<Bytes, Error> {
    if bytes.len() as u64 == expected { Ok(bytes) } else { Err(Error::new(what, key, Kind::Short)) }
}

fn failed(what: &'static str, key: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Store;
    let kind = match error {
        Store::NotFound { .. } => Kind::NotFound,
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => Kind::Denied,
        Store::NotSupported { .. } | Store::NotImplemented { .. } | Store::InvalidPath { .. } => {
            Kind::Unsupported
        }
        _ => Kind::Unavailable,
    };
    Error::new(what, key, kind).because(Said::of(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grants_access_is_not_shown() {
        let text = "GET http://a/b?sv=1&sig=ab%3D&x=1 failed, \"https://c?X-Amz-Signature=77\"";
        let shown = "GET http://a/b?sv=1&sig=***&x=1 failed, \"https://c?X-Amz-Signature=***\"";
        assert_eq!(without_secrets(text), shown);
    }
}
