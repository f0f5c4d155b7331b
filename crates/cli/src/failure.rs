//! How a command ends when it is not done.

use std::error::Error;

/// Result of what a command does.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nobody reads what it writes any more: success.
    ClosedPipe,
    /// It failed: exit code 1.
    Failed {
        /// What failed, on what, and why; it may have several lines.
        text: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// It failed, and all was said already: exit code 1.
    Said,
    /// It was called in a way that makes no sense: exit code 2.
    Misuse(String),
    /// Help was asked for: exit code 0.
    Help(String),
}

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        Failure::Failed { text: text.into(), hint: None }
    }

    /// Adds advice to a failure.
    pub(crate) fn hint(self, advice: impl Into<String>) -> Failure {
        match self {
            Failure::Failed { text, .. } => Failure::Failed { text, hint: Some(advice.into()) },
            other => other,
        }
    }

    /// What failed, without advice; empty if nothing is to be said.
    pub(crate) fn text(&self) -> &str {
        match self {
            Failure::Failed { text, .. } | Failure::Misuse(text) | Failure::Help(text) => text,
            Failure::ClosedPipe | Failure::Said => "",
        }
    }

    /// Says before a failure what it was about.
    pub(crate) fn about(self, what: &str) -> Failure {
        match self {
            Failure::Failed { text, hint } => {
                Failure::Failed { text: format!("{what}: {text}"), hint }
            }
            other => other,
        }
    }
}

/// A failure with all its causes.
pub(crate) fn failed(what: &str, error: &dyn Error) -> Failure {
    Failure::new(format!("{what}: {}", with_causes(error)))
}

impl From<danube_client::Error> for Failure {
    fn from(error: danube_client::Error) -> Failure {
        let hint = error.hint().map(str::to_owned);
        match &error {
            danube_client::Error::Connection { source, .. } => {
                // Layers of the transport say nothing that the last of them does not.
                let said = match source.source() {
                    Some(cause) => last_cause(cause),
                    None => source.message().to_owned(),
                };
                let advice = || "is the broker running? --url or DANUBE_URL say where".to_owned();
                let hint = hint.or_else(|| Some(advice()));
                Failure::Failed { text: format!("{error}: {said}"), hint }
            }
            danube_client::Error::TimedOut { last: Some(last), .. } => {
                Failure::from(danube_client::Error::clone(last)).about(&error.to_string())
            }
            _ => Failure::Failed { text: with_causes(&error), hint },
        }
    }
}

impl From<danube_log::Error> for Failure {
    fn from(error: danube_log::Error) -> Failure {
        Failure::new(with_causes(&error))
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors repeat their cause.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

fn last_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn causes_are_said_once() {
        let refused = Layer("connection refused", None);
        let transport = Layer("transport error", Some(Box::new(refused)));
        assert_eq!(with_causes(&transport), "transport error: connection refused");
        assert_eq!(last_cause(&transport), "connection refused");
        let repeating = Layer("cannot read: gone", Some(Box::new(Layer("gone", None))));
        assert_eq!(with_causes(&repeating), "cannot read: gone");
    }

    #[test]
    fn a_failure_is_completed_where_more_is_known() {
        let failure = Failure::new("too large").about("line 7").hint("make it smaller");
        let expected = Failure::Failed {
            text: "line 7: too large".to_owned(),
            hint: Some("make it smaller".to_owned()),
        };
        assert_eq!(failure, expected);
        assert_eq!(Failure::ClosedPipe.about("line 7").hint("x"), Failure::ClosedPipe);
    }
}
