//! Limits of what clients may take, all in one place.

use std::time::Duration;

/// Connections of all ports of gRPC at once.
const CONNECTIONS_MAX: u64 = 10_000;
/// Those from one address.
pub(crate) const CONNECTIONS_PER_ADDRESS_MAX: usize = 2_000;
/// Streams and calls of one connection at once.
pub(crate) const STREAMS_PER_CONNECTION_MAX: u32 = 4_096;
/// For the first 24 bytes of a connection to come.
pub(crate) const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a client may send ahead on a stream, and on all of a connection together, in bytes.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 8 << 20;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Frames that clients may send: with the 16 KiB of the protocol's default a third of the throughput is lost.
pub(crate) const HTTP2_FRAME_BYTES_MAX: u32 = 64 << 10;
/// A connection that is silent for the first is asked for a sign of life, and closed after the second without one.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
pub(crate) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Around the largest batch, in a message.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = 64 << 10;
/// Topics open on one produce stream at once.
pub(crate) const ALIASES_PER_STREAM_MAX: usize = 20_000;
/// Batches of one produce stream that wait for their answers; more wait in the connection.
pub(crate) const UNANSWERED_PER_STREAM_MAX: usize = 1_024;
/// Answers in one message.
pub(crate) const ANSWERS_PER_MESSAGE_MAX: usize = 256;
/// Messages that wait to be sent on one stream.
pub(crate) const RESPONSES_WAITING_MAX: usize = 4;
/// Bytes of batches in one response of a read: at most, and what is never too much.
pub(crate) const READ_RESPONSE_BYTES_MAX: usize = 256 << 10;
const READ_RESPONSE_BYTES_MIN: usize = 16 << 10;
/// Bytes of batches that wait to be sent on all streams together, about: the more streams, the smaller their responses.
const READ_BYTES_WAITING_MAX: usize = 64 << 20;
/// Items in one response of a read.
pub(crate) const READ_RESPONSE_ITEMS_MAX: usize = 4_096;
/// Items of one consume stream that wait to be sent before its requests wait, too.
pub(crate) const CONSUME_ITEMS_WAITING_MAX: usize = 4_096;
/// Ranges and refusals in one settlement of a consume stream. Each may cost its subscription a search.
pub(crate) const SETTLEMENTS_PER_REQUEST_MAX: usize = 64 << 10;
/// That settlements hold is told alone after this time.
pub(crate) const SETTLED_HELD_MAX: Duration = Duration::from_millis(50);
/// Filters of one consumer, and bytes of each.
pub(crate) const FILTERS_MAX: usize = 256;
pub(crate) const FILTER_BYTES_MAX: usize = 1_024;
/// Topics in one page of a list.
pub(crate) const TOPICS_PER_PAGE_MAX: usize = 10_000;

/// Producers of the protocol `danube` that are registered at once.
pub(crate) const PRODUCERS_MAX: usize = 1_000_000;
/// A producer of that protocol that is not heard of for so long, or up to twice as long, is forgotten. Clients ask for their
/// health every 5 s.
pub(crate) const PRODUCER_IDLE_TIMEOUT: Duration = Duration::from_secs(180);
/// A message of that protocol as it is delivered: its clients take no larger one, and would ask for it again for ever.
pub(crate) const DELIVERED_BYTES_MAX: usize = 4 << 20;
/// A message that comes over that protocol. What is larger than can be delivered is to be refused with a word, so it is read.
pub(crate) const DANUBE_REQUEST_BYTES_MAX: usize = 32 << 20;

/// Messages that wait to be sent on the stream of one consumer of that protocol.
pub(crate) const DELIVERIES_WAITING_MAX: usize = 64;
/// Before a consumer that can't be served is told so.
pub(crate) const REFUSED_CONSUMER_DELAY: Duration = Duration::from_millis(500);
/// Ids of consumers that are no more, of each kind that is remembered.
pub(crate) const GONE_CONSUMERS_MAX: usize = 10_000;
/// What is kept of the reason that a client gives when it refuses a message.
pub(crate) const NACK_REASON_BYTES_MAX: usize = 1_024;

/// At a stop: for streams to end with their answers, and then for connections to close.
pub(crate) const STREAMS_END_TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const CONNECTIONS_END_TIMEOUT: Duration = Duration::from_millis(600);

/// At a start: places that were healed and are told one by one.
pub(crate) const HEALED_TOLD_MAX: usize = 100;

/// Bytes of batches in one response of a read that asks for `wanted`, while so many streams are served. Each may have one
/// response in its making and one that finds no room, besides those that wait.
pub(crate) fn read_response_bytes(wanted: usize, streams: usize) -> usize {
    let share = READ_BYTES_WAITING_MAX / (streams.max(1) * (RESPONSES_WAITING_MAX + 2));
    wanted.min(share.max(READ_RESPONSE_BYTES_MIN))
}

/// Connections at once, under a limit of files that the process may have open: half of it.
pub(crate) fn connections(limit: Option<u64>) -> usize {
    limit.map_or(CONNECTIONS_MAX, |limit| (limit / 2).clamp(1, CONNECTIONS_MAX)) as usize
}

/// Files of messages that stay open between two uses where no setting says how many, under a limit of the process. The rest
/// is for connections, and for what is open only while it is used.
pub(crate) fn open_files_kept(limit: Option<u64>) -> usize {
    const KEPT_MAX: u64 = 1_024;
    limit.map_or(KEPT_MAX, |limit| (limit / 4).clamp(1, KEPT_MAX)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_what_may_wait() {
        assert_eq!(read_response_bytes(1_000, 1), 1_000);
        assert_eq!(read_response_bytes(READ_RESPONSE_BYTES_MAX, 1), READ_RESPONSE_BYTES_MAX);
        for streams in [42, 100, 600] {
            let bytes = read_response_bytes(READ_RESPONSE_BYTES_MAX, streams);
            let all = bytes * streams * (RESPONSES_WAITING_MAX + 2);
            assert!((READ_RESPONSE_BYTES_MIN..=READ_RESPONSE_BYTES_MAX).contains(&bytes));
            assert!(all <= READ_BYTES_WAITING_MAX, "{streams} streams hold {all} bytes");
        }
    }

    #[test]
    fn files_and_connections_share_what_a_process_may_open() {
        let kept = [None, Some(1 << 20), Some(1_024), Some(1)].map(open_files_kept);
        assert_eq!(kept, [1_024, 1_024, 256, 1]);
        let connections = [None, Some(1 << 20), Some(1_024), Some(1)].map(connections);
        assert_eq!(connections, [10_000, 10_000, 512, 1]);
    }
}
