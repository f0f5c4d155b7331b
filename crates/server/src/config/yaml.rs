//! YAML as a tree of nodes that know their lines.
//!
//! Only what settings need: blocks, lists and single values. What the values mean is decided by [`super::value`], from
//! their text; so a quoted number is a number, and `012` is never octal.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

/// Blocks and lists may be nested this deep.
const DEPTH_MAX: usize = 32;

/// A value and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) content: Content,
}

/// What a node is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing, `null` or `~`.
    Null,
    Scalar(String),
    List(Vec<Node>),
    /// In the order of the text; a name may appear twice.
    Block(Vec<(Name, Node)>),
}

/// The name of an entry of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Why a text is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) what: String,
}

/// Parses a text of one document; an empty one is [`Content::Null`].
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let mut events = Events { parser: Parser::new_from_str(text) };
    let mut document = None;
    loop {
        let (event, span) = events.next()?;
        match event {
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::StreamEnd => break,
            Event::DocumentStart(_) if document.is_some() => {
                return Err(fault(span, "a second document; settings are one"));
            }
            Event::DocumentStart(_) => {
                let (event, span) = events.next()?;
                document = Some(events.node(event, span, 0)?);
            }
            _ => return Err(fault(span, "not a block of settings")),
        }
    }
    Ok(document.unwrap_or(Node { line: 1, content: Content::Null }))
}

struct Events<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        self.parser.next_event().expect("the stream's end is asked for once").map_err(broken)
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        if depth > DEPTH_MAX {
            return Err(fault(span, "nested too deeply"));
        }
        let content = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) if is_null(&text) => Content::Null,
            Event::Scalar(text, ..) => Content::Scalar(text.into_owned()),
            Event::SequenceStart(..) => Content::List(self.list(depth + 1)?),
            Event::MappingStart(..) => Content::Block(self.block(depth + 1)?),
            Event::Alias(_) => return Err(fault(span, "anchors are not followed; write it out")),
            _ => return Err(fault(span, "a value is missing")),
        };
        Ok(Node { line: span.start.line(), content })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth)?),
            }
        }
    }

    fn block(&mut self, depth: usize) -> Result<Vec<(Name, Node)>, Fault> {
        let mut entries = Vec::new();
        loop {
            let (name, span) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(entries),
                (Event::Scalar(text, ..), span) => (text.into_owned(), span),
                (_, span) => return Err(fault(span, "the name of a key is a single word")),
            };
            let (event, value_span) = self.next()?;
            let value = self.node(event, value_span, depth)?;
            entries.push((Name { line: span.start.line(), text: name }, value));
        }
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn fault(span: Span, what: &str) -> Fault {
    Fault { line: span.start.line(), what: what.to_owned() }
}

fn broken(error: ScanError) -> Fault {
    Fault { line: error.marker().line(), what: format!("not YAML: {}", error.info()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(line: usize, text: &str) -> Node {
        Node { line, content: Content::Scalar(text.to_owned()) }
    }

    #[test]
    fn values_know_their_lines() {
        let text = "# settings\na: 'x'\nb:\n  c: [1, two]\n  d:\n";
        let Content::Block(entries) = parse(text).unwrap().content else { panic!() };
        assert_eq!(entries[0].0, Name { line: 2, text: "a".to_owned() });
        assert_eq!(entries[0].1, scalar(2, "x"));
        let Content::Block(inner) = &entries[1].1.content else { panic!() };
        let list = Content::List(vec![scalar(4, "1"), scalar(4, "two")]);
        assert_eq!(inner[0].1, Node { line: 4, content: list });
        assert_eq!(inner[1].1.content, Content::Null);
    }

    #[test]
    fn an_empty_text_is_nothing() {
        for text in ["", "# only words\n", "---\n", "~"] {
            assert_eq!(parse(text).unwrap().content, Content::Null, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_settings_is_refused_with_its_line() {
        let deep = format!("a:\n  {}1{}", "[".repeat(40), "]".repeat(40));
        for (text, line, what) in [
            ("a: 1\nb: [2\nc: 3\n", 3, "not YAML"),
            ("a: 1\n---\na: 2\n", 2, "a second document"),
            ("a: &x 1\nb: *x\n", 2, "anchors"),
            ("? [a]\n: 1\n", 1, "single word"),
            (deep.as_str(), 2, "nested too deeply"),
        ] {
            let fault = parse(text).unwrap_err();
            assert!(fault.what.contains(what), "{text:?}: {fault:?}");
            assert_eq!(fault.line, line, "{text:?}: {fault:?}");
        }
    }
}
