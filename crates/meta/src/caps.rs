//! All limits of the metadata. Sizes are in bytes, limits are inclusive.

/// One command, as encoded.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;
/// Commands that travel in one Raft entry.
pub const COMMANDS_PER_ENTRY_MAX: usize = 1024;
/// A Raft entry in a log file, its header included. Commands are added to an entry until they have
/// [`COMMAND_BYTES_MAX`] bytes, so it is never more than twice that.
pub const ENTRY_BYTES_MAX: usize = 8 << 20;
/// A log file takes no further entry once it has this size, unless a setting says otherwise.
pub const LOG_FILE_BYTES_DEFAULT: u64 = 4 << 20;
/// Callers whose commands wait to be put into an entry; more wait in line.
pub const PROPOSALS_WAITING_MAX: usize = 1024;
/// Pieces of work that wait for the disk thread.
pub const DISK_QUEUE_MAX: usize = 64;
/// Space that is kept for the time when the volume is full.
pub const RESERVE_BYTES: u64 = 256 << 10;

const _: () = assert!(2 * COMMAND_BYTES_MAX + (64 << 10) <= ENTRY_BYTES_MAX);
