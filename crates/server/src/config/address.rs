//! Addresses to listen on.

use std::fmt;

/// A host and a port: `127.0.0.1:6650`, `localhost:0`, `[::1]:6650`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// An IP address, or a name that stands for one.
    pub host: String,
    /// A port; 0 for a free one.
    pub port: u16,
}

impl Address {
    /// Parses `host:port`; an IPv6 address stands in brackets.
    pub fn parse(text: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        is_host.then(|| Address { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for text in ["127.0.0.1:6650", "localhost:0", "[::1]:6650", "broker-1.example:65535"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["", "6650", ":6650", "a:", "a:65536", "::1", "::1:6650", "[::1:6650", "http://a:1"]
        {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
