//! Rule: files are short enough to read in one sitting, and so are functions of the test programs.
//! (clippy has the limit for functions in Rust.)

use super::sources::Source;

const MEDIAN_MAX: usize = 200;
const P90_MAX: usize = 500;
const HARD_MAX: usize = 700;
const FUNCTION_MAX: usize = 70;

pub(super) fn problems(files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines: Vec<usize> = files.iter().map(|file| file.text.lines().count()).collect();
    for (Source { path, text, .. }, count) in files.iter().zip(&lines) {
        if *count > HARD_MAX {
            found.push(format!("{path}: {count} lines, {HARD_MAX} are the most"));
        }
        if *count == 0 {
            found.push(format!("{path}: empty, or not UTF-8"));
        }
        let long = functions(path, text).into_iter();
        for (line, count) in long.filter(|(_, count)| *count > FUNCTION_MAX) {
            found.push(format!(
                "{path}:{line}: a function of {count} lines, {FUNCTION_MAX} are the most"
            ));
        }
    }
    lines.sort_unstable();
    for (name, percent, max) in [("median", 50, MEDIAN_MAX), ("90th percentile", 90, P90_MAX)] {
        let at = lines.get(lines.len() * percent / 100);
        if at.is_some_and(|count| *count > max) {
            found.push(format!(
                "file sizes: the {name} is above {max} lines: split the largest"
            ));
        }
    }
    found
}

/// Returns the first line and the number of lines of each function in C, Java, Go and JavaScript:
/// from a line that ends with a brace to the next one that begins with its counterpart, both
/// indented as functions are.
fn functions(path: &str, text: &str) -> Vec<(usize, usize)> {
    let indent = match path.rsplit('.').next() {
        Some("c" | "go" | "js") => "",
        Some("java") => "    ",
        _ => return Vec::new(),
    };
    let (mut found, mut first) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.strip_prefix(indent).unwrap_or(" ");
        if line.starts_with('}') {
            found.extend(first.take().map(|first| (first, number - first + 1)));
        } else if line.ends_with('{') && !line.starts_with(char::is_whitespace) {
            first = Some(number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[usize]) -> String {
        let file = |lines: &usize| Source::new("a.rs", &"x\n".repeat(*lines));
        problems(&sizes.iter().map(file).collect::<Vec<_>>()).join("\n")
    }

    #[test]
    fn each_limit_of_files_can_be_exceeded() {
        assert!(of(&[201, 201, 201, 10]).contains("median"));
        assert!(of(&[10, 10, 10, 10, 10, 10, 10, 10, 501, 501]).contains("90th"));
        assert!(of(&[10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 701]).contains("701 lines"));
        assert!(of(&[0, 5]).contains("empty"));
        assert_eq!(of(&[200, 200, 100, 30]) + &of(&[]), "");
    }

    #[test]
    fn a_long_function_of_a_test_program_is_found() {
        let body = "    if (x) {\n    }\n".repeat(35);
        let of = |path: &str, text: String| problems(&[Source::new(path, &text)]);
        let found = of("a.c", format!("int f(void)\n{{\n{body}}}\n"));
        assert_eq!(found, ["a.c:2: a function of 72 lines, 70 are the most"]);
        assert_eq!(of("a.c", "int f(void) {\n}\n".to_owned()), [""; 0]);
        let body = "        x();\n".repeat(70);
        let text = format!("class A {{\n    void f() {{\n{body}    }}\n}}\n");
        assert_eq!(of("a.java", text).len(), 1);
    }
}
