//! Rules for every text in the tree: nothing left undone, nothing of the machine it was written on.

/// Words for what is left to do. In two parts, so that this file does not name itself.
const LOOSE_ENDS: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];

/// First directories of paths that exist only on the machine of whoever wrote them.
const MACHINE_DIRECTORIES: [&str; 6] = ["root", "home", "Users", "work", "workspace", "builds"];

/// Problems of one file.
pub(super) fn check(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let place = format!("{path}:{}", at + 1);
        if let Some(word) = LOOSE_ENDS.iter().find(|word| has_word(line, word)) {
            problems.push(format!("{place}: `{word}`: do it, or take it out"));
        }
        for directory in MACHINE_DIRECTORIES {
            let start = format!("/{directory}/");
            if has_path(line, &start) {
                problems
                    .push(format!("{place}: `{start}`: a path of one machine; make it relative"));
            }
        }
    }
    problems
}

fn has_word(line: &str, word: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_letter(line[..at].chars().next_back())
            && !is_letter(line[at + word.len()..].chars().next())
    })
}

/// Whether an absolute path begins with `start`; the same directories deeper in a path or an address are fine.
fn has_path(line: &str, start: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_-./}>*~".contains(c);
    line.match_indices(start).any(|(at, _)| !line[..at].chars().next_back().is_some_and(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loose_end_is_a_problem() {
        for word in LOOSE_ENDS {
            assert_eq!(check("a.md", &format!("// {word} later")).len(), 1, "{word}");
        }
        assert_eq!(check("a.md", concat!("mkTO", "DOs")), [""; 0]);
    }

    #[test]
    fn a_path_of_one_machine_is_a_problem() {
        for directory in MACHINE_DIRECTORIES {
            assert_eq!(check("a.md", &format!("see /{directory}/me/x")).len(), 1);
            assert_eq!(check("a.md", &format!("`/{directory}/me`")).len(), 1);
            assert_eq!(check("a.md", &format!("http://host/{directory}/x")), [""; 0]);
            assert_eq!(check("a.md", &format!("target/{directory}/x")), [""; 0]);
        }
    }
}
