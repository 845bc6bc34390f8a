//! Rule: no function has more than 70 lines. Braces are counted, so macros and closures count as
//! part of the function around them.

use super::sources::Source;

const LINES_MAX: usize = 70;

pub(super) fn problems(files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let long: Vec<(usize, usize)> = match file.path.rsplit('.').next() {
            Some("rs") => rust_functions(file.code()),
            Some("c" | "java" | "go" | "js") => top_blocks(file.code()),
            _ => Vec::new(),
        };
        for (line, lines) in long.into_iter().filter(|(_, lines)| *lines > LINES_MAX) {
            found.push(format!(
                "{}:{line}: a function of {lines} lines, {LINES_MAX} are the most",
                file.path
            ));
        }
    }
    found
}

/// Returns the first line and the number of lines of each `fn` with a body, also of nested ones.
fn rust_functions(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new(); // depth outside, first line
    let (mut depth, mut pending) = (0_usize, None);
    for (number, line) in code.lines().enumerate() {
        let mut word = String::new();
        for c in line.chars().chain(['\n']) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            if word == "fn" && c == ' ' {
                pending = Some(number);
            }
            word.clear();
            match c {
                ';' if line.trim_end().ends_with(';') && open_at(&open, depth) => pending = None,
                '{' => {
                    open.extend(pending.take().map(|first| (depth, first)));
                    depth += 1;
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    if let Some((_, first)) = open.pop_if(|(outside, _)| *outside == depth) {
                        found.push((first + 1, number - first + 1));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns whether `depth` is inside the innermost open function, or no function is open.
fn open_at(open: &[(usize, usize)], depth: usize) -> bool {
    open.last().is_none_or(|(outside, _)| *outside < depth)
}

/// Returns the first line and the number of lines of each outermost block, and of each block
/// directly inside a type (Java). That is enough to find a long C function.
fn top_blocks(code: &str) -> Vec<(usize, usize)> {
    let (mut found, mut depth, mut first) = (Vec::new(), 0_usize, 0);
    for (number, line) in code.lines().enumerate() {
        let is_type = line.contains("class ") && depth == 0;
        for c in line.chars() {
            match c {
                '{' if is_type => {}
                '{' => {
                    if depth == 0 {
                        first = number;
                    }
                    depth += 1;
                }
                '}' if depth > 0 => {
                    depth -= 1;
                    if depth == 0 {
                        found.push((first + 1, number - first + 1));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(lines: usize) -> String {
        "    let x = [0; 3];\n".repeat(lines)
    }

    #[test]
    fn a_long_function_is_found_with_its_line() {
        let text = format!(
            "fn short() {{}}\n\nimpl A {{\nfn long() {{\n{}}}\n}}\n",
            body(69)
        );
        let found = problems(&[Source::new("a.rs", &text)]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("a.rs:4: a function of 71 lines"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn a_function_at_the_limit_is_not() {
        let text = format!("fn long() {{\n{}}}\nmod m {{\n{}}}\n", body(68), body(100));
        assert!(problems(&[Source::new("a.rs", &text)]).is_empty());
    }

    #[test]
    fn a_declaration_without_body_does_not_open_one() {
        let text = format!("trait A {{\nfn a(&self);\n}}\nmod m {{\n{}}}\n", body(100));
        assert!(problems(&[Source::new("a.rs", &text)]).is_empty());
    }

    #[test]
    fn a_long_c_function_is_found() {
        let text = format!("int f(void)\n{{\n{}}}\n", "    x();\n".repeat(70));
        assert_eq!(problems(&[Source::new("a.c", &text)]).len(), 1);
        assert!(problems(&[Source::new("a.c", "int f(void)\n{\n}\n")]).is_empty());
    }
}
