//! Which partition a message goes to.

/// The partition of a key: as all Danube clients compute it, FNV-1a with 64 bits over its UTF-8.
pub(crate) fn partition_of_key(key: &str, partitions: usize) -> usize {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash % partitions as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_other_clients_send_them() {
        // FNV-1a test vectors of the algorithm's authors: "" cbf29ce484222325, "a" af63dc4c8601ec8c, "foobar" 85944171f73967e8.
        let partitions = 1 << 32;
        assert_eq!(partition_of_key("", partitions), 0x8422_2325);
        assert_eq!(partition_of_key("a", partitions), 0x8601_ec8c);
        assert_eq!(partition_of_key("foobar", partitions), 0xf739_67e8);
        assert_eq!(partition_of_key("foobar", 1), 0);
    }
}
