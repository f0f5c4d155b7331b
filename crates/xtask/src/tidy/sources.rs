//! Rules for single Rust files: purpose, length, functions, silenced lints.

const LINES_MAX: usize = 500;
const TEST_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Problems of one Rust file.
pub(super) fn check(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    let code = if is_test { &lines[..] } else { without_tests(&lines) };
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push(format!("{path}:1: begin with `//!`: what the module is for"));
    }
    let lines_max = if is_test { TEST_LINES_MAX } else { LINES_MAX };
    if code.len() > lines_max {
        problems.push(format!(
            "{path}:{lines_max}: {} lines, {lines_max} is the limit: split it",
            code.len()
        ));
    }
    if !is_test {
        problems.extend(long_functions(path, code));
    }
    problems.extend(bare_attributes(path, &lines));
    problems
}

/// The lines before the tests at the end of a file.
fn without_tests<'a, 'b>(lines: &'a [&'b str]) -> &'a [&'b str] {
    let begins = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests {");
    let end = lines.windows(2).position(begins).unwrap_or(lines.len());
    &lines[..end]
}

/// Functions that are too long. The code is formatted, so one ends where a brace stands below its `fn`.
fn long_functions(path: &str, code: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, line) in code.iter().enumerate() {
        if !is_function(line.trim_start()) || !has_body(&code[at..]) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let last = code[at..].iter().position(|line| *line == format!("{indent}}}"));
        let length = last.map_or(0, |last| last + 1);
        if length > FUNCTION_LINES_MAX {
            problems.push(format!(
                "{path}:{}: a function of {length} lines, {FUNCTION_LINES_MAX} is the limit: take a part out",
                at + 1,
            ));
        }
    }
    problems
}

/// Whether a body follows a signature; a declaration in a trait ends with a semicolon, an empty body on its line.
fn has_body(from_signature: &[&str]) -> bool {
    let end = from_signature.iter().find(|line| line.ends_with(['{', ';', '}']));
    end.is_some_and(|line| line.ends_with('{'))
}

fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| {
        matches!(*word, "pub" | "const" | "async" | "unsafe" | "extern") || word.starts_with("pub(")
    });
    words.next() == Some("fn")
}

/// Tests that are switched off, and lints that are silenced without a reason.
fn bare_attributes(path: &str, lines: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(attribute) = line.trim_start().strip_prefix('#') else { continue };
        let attribute = attribute.strip_prefix('!').unwrap_or(attribute);
        let place = format!("{path}:{}", at + 1);
        if attribute.starts_with("[ignore") {
            problems.push(format!("{place}: a test that does not run: mend it or take it out"));
        }
        if attribute.starts_with("[allow(") {
            let end = lines[at..].iter().position(|line| line.contains(")]")).unwrap_or(0);
            if !lines[at..=at + end].iter().any(|line| line.contains("reason =")) {
                problems.push(format!("{place}: use #[expect(lint, reason = \"...\")]"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, body: &str) -> usize {
        check(path, &format!("//! Why.\n{body}")).len()
    }

    #[test]
    fn a_module_without_its_purpose_is_a_problem() {
        assert_eq!(check("a.rs", "//! Why.\n"), [""; 0]);
        assert_eq!(check("a.rs", "use b;\n").len(), 1);
    }

    #[test]
    fn a_long_file_is_a_problem_but_its_tests_do_not_count() {
        let code = "const A: u8 = 1;\n".repeat(LINES_MAX - 1);
        assert_eq!(problems("a.rs", &code), 0);
        let with_tests = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(problems("a.rs", &with_tests), 0);
        assert_eq!(problems("a.rs", &format!("{code}{code}")), 1);
        assert_eq!(problems("log/tests.rs", &code.repeat(2)), 1);
        assert_eq!(problems("crates/log/tests/it/main.rs", &code), 0);
    }

    #[test]
    fn a_long_function_is_a_problem() {
        let function =
            |lines| format!("pub(crate) async fn a() {{\n{}}}\n", "    b();\n".repeat(lines));
        assert_eq!(problems("a.rs", &function(FUNCTION_LINES_MAX - 2)), 0);
        assert_eq!(problems("a.rs", &function(FUNCTION_LINES_MAX - 1)), 1);
        let declared =
            format!("trait A {{\n{}}}\n", "    fn a(&self);\n\n".repeat(FUNCTION_LINES_MAX));
        assert_eq!(problems("a.rs", &declared), 0);
    }

    #[test]
    fn a_lint_silenced_without_a_reason_is_a_problem() {
        assert_eq!(problems("a.rs", "#[allow(dead_code)]\n"), 1);
        assert_eq!(problems("a.rs", "#![allow(dead_code)]\n"), 1);
        assert_eq!(problems("a.rs", "#[allow(\n    dead_code,\n    reason = \"made\"\n)]\n"), 0);
        assert_eq!(problems("a.rs", "#[expect(dead_code, reason = \"made\")]\n"), 0);
    }

    #[test]
    fn a_test_that_is_switched_off_is_a_problem() {
        assert_eq!(problems("a.rs", "#[test]\n#[ignore]\nfn a() {}\n"), 1);
    }
}
