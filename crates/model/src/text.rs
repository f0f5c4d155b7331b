//! Text that shares its bytes.

use std::fmt;

use bytes::Bytes;

/// UTF-8 in shared bytes: cloning it, and cutting it out of a batch, copies nothing.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Bytes);

impl Text {
    /// Text of these bytes, or `None` if they are not UTF-8.
    pub fn new(bytes: Bytes) -> Option<Text> {
        std::str::from_utf8(&bytes).is_ok().then_some(Text(bytes))
    }

    /// Text that lives as long as the program.
    pub fn from_static(text: &'static str) -> Text {
        Text(Bytes::from_static(text.as_bytes()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Checked again, which is cheap for the short texts it is used for; the alternative is unsafe code.
        std::str::from_utf8(&self.0).expect("checked when it was made, and immutable")
    }

    /// Its bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Its bytes.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Bytes::from(text))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
