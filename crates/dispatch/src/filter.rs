//! Which keys a consumer wants.

/// A glob over a key: `*` stands for any characters, `?` for exactly one, everything else for itself; case counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Box<str>);

impl Filter {
    /// A filter of this pattern. Every text is one.
    pub fn new(pattern: &str) -> Filter {
        Filter(pattern.into())
    }

    /// Whether filters of one consumer take a key; none of them take every key.
    pub(crate) fn any_matches(filters: &[Filter], key: &[u8]) -> bool {
        filters.is_empty() || filters.iter().any(|filter| filter.matches(key))
    }

    /// Whether it takes a key. A key that is not UTF-8 is compared as if each wrong byte were the replacement character.
    pub fn matches(&self, key: &[u8]) -> bool {
        let key = String::from_utf8_lossy(key);
        let (mut pattern, mut rest) = (&*self.0, &*key);
        // Where to go on with one character more under the last star. Earlier stars need no second try.
        let mut retry: Option<(&str, &str)> = None;
        loop {
            let mut after = pattern.chars();
            let mut left = rest.chars();
            match (after.next(), left.next()) {
                (Some('*'), _) => {
                    pattern = after.as_str();
                    retry = Some((pattern, rest));
                }
                (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                    (pattern, rest) = (after.as_str(), left.as_str());
                }
                (None, None) => return true,
                _ => {
                    let Some((behind_star, from)) = retry else { return false };
                    let mut from = from.chars();
                    if from.next().is_none() {
                        return false;
                    }
                    (pattern, rest) = (behind_star, from.as_str());
                    retry = Some((pattern, rest));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_filter_is_a_glob() {
        let matching = [
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("a*", "a"),
            ("a*c", "abbc"),
            ("a?c", "aßc"),
            ("*.eu.*", "orders.eu.north"),
            ("**b", "aab"),
            ("?*", "x"),
            ("a*b*c", "a-b-b-c"),
        ];
        for (pattern, key) in matching {
            assert!(Filter::new(pattern).matches(key.as_bytes()), "{pattern} {key}");
        }
        let other = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("A", "a"),
            ("a*c", "abcd"),
            ("[ab]", "a"),
            ("?", "ab"),
        ];
        for (pattern, key) in other {
            assert!(!Filter::new(pattern).matches(key.as_bytes()), "{pattern} {key}");
        }
    }

    fn naive(pattern: &[u8], key: &[u8]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, _) => key.is_empty(),
            (Some((b'*', after)), None) => naive(after, key),
            (Some((b'*', after)), Some((_, left))) => naive(after, key) || naive(pattern, left),
            (Some((wanted, after)), Some((found, left))) => {
                (*wanted == b'?' || wanted == found) && naive(after, left)
            }
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn it_matches_what_a_plain_definition_matches(pattern in "[ab?*]{0,8}", key in "[ab]{0,8}") {
            let expected = naive(pattern.as_bytes(), key.as_bytes());
            prop_assert_eq!(Filter::new(&pattern).matches(key.as_bytes()), expected);
        }
    }
}
