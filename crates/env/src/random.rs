//! Randomness.

/// A source of random numbers.
pub trait Random: Send + Sync + 'static {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
    /// 16 random bytes, for identities.
    fn next_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.next_u64().to_be_bytes());
        id[8..].copy_from_slice(&self.next_u64().to_be_bytes());
        id
    }
}
