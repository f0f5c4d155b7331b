//! The keys of `storage`.

use std::time::Duration;

use super::Fallback::{None, Value};
use super::Key;
use super::Support::{self, Idle, Lacking, Only};
use crate::config::value::Item::Text as Texts;
use crate::config::value::Kind::{
    self, Bool, Choice, List, Number, Path, Secret, Size, Text, Time,
};
use crate::config::value::Plain::{Bytes, Mebibytes, Messages};
use crate::config::value::SIZE_MAX;

const COUNT: Kind = Number(0, u64::MAX);
const MINUTES: Kind = Time(Some("m"), Duration::ZERO);
const PERIOD: Kind = Time(Option::None, Duration::from_millis(1));
const MILLISECONDS: Kind = Time(Some("ms"), Duration::from_millis(1));
const ANY_SIZE: Kind = Size(Bytes, 0, SIZE_MAX);

const COLD: Support = Idle("the cold tier");
const WARM: Support = Idle("the warm tier");

pub(super) const STORAGE: &[Key] = &[
    Key::new(
        "storage.mode",
        Choice(&["local", "shared_fs", "object_store"]),
        Value("local"),
        "Where sealed segments go: nowhere, to a directory that all brokers mount, or to a bucket.",
    )
    .support(Only(&["local"], "the cold tier")),
    Key::new(
        "storage.local_wal_root",
        Path,
        None("`wal` in the data directory"),
        "Directory of the messages on the broker's own disk.",
    )
    .aliases(&["storage.root", "storage.cache_root", "storage.wal.dir"]),
    Key::new(
        "storage.metadata_prefix",
        Text,
        Value("/danube"),
        "A part of the names in Valkey and bucket.",
    )
    .aliases(&["storage.metadata_root"])
    .support(COLD),
    Key::new(
        "storage.durability",
        Choice(&["page_cache", "disk", "warm", "disk+warm", "cold"]),
        Value("disk"),
        "What an acknowledgement means in topics that do not say it themselves.",
    )
    .support(Only(&["page_cache", "disk"], "the warm or the cold tier")),
    Key::new(
        "storage.wal.rotation.max_bytes",
        Size(Bytes, 4 << 10, 1 << 40),
        Value("128MiB"),
        "A segment is sealed before it grows beyond this; one larger batch may exceed it.",
    ),
    Key::new(
        "storage.wal.rotation.max_hours",
        Time(Some("h"), Duration::from_millis(1)),
        Value("1h"),
        "A segment of at least `min_bytes` is sealed when it is this old.",
    ),
    Key::new(
        "storage.wal.rotation.min_bytes",
        Size(Bytes, 0, 1 << 40),
        Value("1MiB"),
        "What makes a segment worth a file of its own.",
    ),
    Key::new(
        "storage.wal.rotation.max_days",
        Time(Some("d"), Duration::from_millis(1)),
        Value("7d"),
        "Any segment is sealed when it is this old.",
    ),
    Key::new(
        "storage.wal.advanced.cache_capacity",
        Size(Messages, 1 << 20, 1 << 40),
        Value("64MiB"),
        "Memory for recent messages of all topics.",
    )
    .aliases(&["storage.wal.cache_capacity"]),
    Key::new(
        "storage.wal.advanced.queue_capacity",
        Size(Bytes, 1 << 20, 1 << 40),
        Value("64MiB"),
        "Memory for messages that wait to be written; producers wait beyond it.",
    ),
    Key::new(
        "storage.wal.advanced.file_sync.interval_ms",
        MILLISECONDS,
        Value("1s"),
        "How often `page_cache` topics are synced behind the acknowledgement. Delays no acknowledgement.",
    ),
    Key::new(
        "storage.wal.advanced.file_sync.max_batch_bytes",
        Size(Bytes, 4 << 10, 1 << 30),
        Value("8MiB"),
        "What one sync makes durable at most; a single larger batch is synced alone.",
    ),
    Key::new(
        "storage.wal.advanced.file_sync.quiet_ms",
        MILLISECONDS,
        Value("100ms"),
        "After a busy spell, its last sync is noted on disk this much later.",
    ),
    Key::new(
        "storage.wal.advanced.journal.max_bytes",
        Size(Bytes, 256 << 10, 1 << 40),
        Value("512MiB"),
        "Size of the journal at most. It never takes more than 1/16 of the volume.",
    ),
    Key::new(
        "storage.wal.advanced.journal.checkpoint_bytes",
        Size(Bytes, 64 << 10, 1 << 40),
        Value("128MiB"),
        "A checkpoint is taken when so much was written since the last; bounds what a restart reads and writes.",
    ),
    Key::new(
        "storage.wal.advanced.max_open_files",
        Number(1, 1 << 20),
        None("1024, or a quarter of the process's limit if that is less"),
        "Files of messages that stay open between two uses. More are open only while they are read or written.",
    ),
    Key::new(
        "storage.wal.advanced.space_check_interval",
        PERIOD,
        Value("1s"),
        "How often free space is looked for while the volume is full.",
    ),
    Key::new(
        "storage.local_retention.time_minutes",
        MINUTES,
        Value("2d"),
        "How long messages of a topic are kept. 0: without limit.",
    ),
    Key::new(
        "storage.local_retention.size_mb",
        Size(Mebibytes, 0, SIZE_MAX),
        Value("20GiB"),
        "How much of a topic is kept. 0: without limit.",
    ),
    Key::new(
        "storage.local_retention.check_interval_minutes",
        Time(Some("m"), Duration::from_millis(1)),
        Value("5m"),
        "How often it is looked at what may go.",
    ),
    Key::new(
        "storage.local_retention.total_size",
        ANY_SIZE,
        None("without limit"),
        "How much of all topics together is kept.",
    ),
    Key::new(
        "storage.durable.backend",
        Choice(&["s3", "gcs", "azblob"]),
        None("as `root` says"),
        "Kind of the object store.",
    )
    .support(COLD),
    Key::new(
        "storage.durable.root",
        Text,
        None("none"),
        "A directory, or `s3://bucket/prefix`, `gcs://bucket/prefix`, `azblob://container/prefix` or \
         `container/prefix`.",
    )
    .support(COLD),
    Key::new("storage.durable.region", Text, None("none"), "Region of the bucket (s3).")
        .support(COLD),
    Key::new(
        "storage.durable.endpoint",
        Text,
        None("the provider's"),
        "URL of the object store, where it is not the provider's.",
    )
    .support(COLD),
    Key::new("storage.durable.access_key", Secret, None("none"), "Access key id (s3).").support(COLD),
    Key::new("storage.durable.secret_key", Secret, None("none"), "Secret access key (s3).")
        .support(COLD),
    Key::new("storage.durable.session_token", Secret, None("none"), "Session token (s3).")
        .support(COLD),
    Key::new("storage.durable.profile", Text, None("none"), "Profile of shared credentials (s3).")
        .support(COLD),
    Key::new("storage.durable.role_arn", Text, None("none"), "Role to take on (s3).").support(COLD),
    Key::new("storage.durable.anonymous", Bool, Value("false"), "Whether requests are not signed (s3).")
        .support(COLD),
    Key::new(
        "storage.durable.virtual_host_style",
        Bool,
        Value("false"),
        "Whether the bucket is a part of the host name (s3).",
    )
    .support(COLD),
    Key::new("storage.durable.project", Text, None("none"), "Project (gcs).").support(COLD),
    Key::new("storage.durable.credentials_path", Path, None("none"), "File with credentials (gcs).")
        .support(COLD),
    Key::new("storage.durable.credentials_json", Secret, None("none"), "Credentials (gcs).")
        .support(COLD),
    Key::new("storage.durable.account_name", Text, None("none"), "Storage account (azblob).")
        .support(COLD),
    Key::new("storage.durable.account_key", Secret, None("none"), "Key of the account (azblob).")
        .support(COLD),
    Key::new("storage.durable.sas_token", Secret, None("none"), "Shared access signature (azblob).")
        .support(COLD),
    Key::new(
        "storage.export.max_lag",
        PERIOD,
        Value("1m"),
        "How far the cold tier may lie behind.",
    )
    .support(Lacking("the cold tier")),
    Key::new("storage.export.concurrency", Number(1, 1024), Value("4"), "Uploads at a time.")
        .support(Lacking("the cold tier")),
    Key::new(
        "storage.write_buffer.backend",
        Choice(&["valkey"]),
        None("no write buffer"),
        "Where a second copy of recent messages is kept.",
    )
    .support(Lacking("the warm tier")),
    Key::new(
        "storage.write_buffer.endpoints",
        List(Texts),
        None("none"),
        "Where it is: `redis://`, `rediss://` or `redis+sentinel://`. Several `redis://` are a cluster.",
    )
    .support(Lacking("the warm tier")),
    Key::new(
        "storage.write_buffer.wait_replicas",
        COUNT,
        Value("0"),
        "Replicas that must have confirmed a message.",
    )
    .support(WARM),
    Key::new(
        "storage.write_buffer.wait_disk",
        Bool,
        Value("false"),
        "Whether their disks must have it, not only their memory.",
    )
    .support(WARM),
    Key::new(
        "storage.write_buffer.wait_timeout_ms",
        MILLISECONDS,
        Value("100ms"),
        "How long their confirmation is waited for.",
    )
    .support(WARM),
    Key::new(
        "storage.write_buffer.on_wait_timeout",
        Choice(&["fail", "ack"]),
        Value("fail"),
        "What happens then: an error for the producer, or an acknowledgement at the local level and an alarm.",
    )
    .support(WARM),
    Key::new(
        "storage.write_buffer.max_cached_closed_segments",
        COUNT,
        Value("5"),
        "Sealed segments of a topic that stay there.",
    )
    .support(WARM),
    Key::new(
        "storage.write_buffer.max_bytes",
        ANY_SIZE,
        None("70 % of its `maxmemory`"),
        "How much is kept there at most.",
    )
    .support(WARM),
];
