//! Rule: files are short enough to read in one sitting. There are limits for the lines of all
//! sources.

use super::sources::Source;

const MEDIAN_MAX: usize = 200;
const P90_MAX: usize = 500;
const HARD_MAX: usize = 700;

pub(super) fn problems(files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines: Vec<usize> = files.iter().map(|file| file.text.lines().count()).collect();
    for (file, count) in files.iter().zip(&lines) {
        if *count > HARD_MAX {
            found.push(format!(
                "{}: {count} lines, {HARD_MAX} are the most",
                file.path
            ));
        }
        if *count == 0 {
            found.push(format!("{}: empty, or not UTF-8", file.path));
        }
    }
    lines.sort_unstable();
    for (name, percent, max) in [("median", 50, MEDIAN_MAX), ("90th percentile", 90, P90_MAX)] {
        let at = lines.get((lines.len() * percent / 100).min(lines.len().saturating_sub(1)));
        if at.is_some_and(|count| *count > max) {
            found.push(format!(
                "file sizes: the {name} is above {max} lines: split the largest"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sizes: &[usize]) -> Vec<Source> {
        sizes
            .iter()
            .map(|lines| Source::new("a.rs", &"x\n".repeat(*lines)))
            .collect()
    }

    #[test]
    fn each_budget_can_be_exceeded() {
        let median = files(&[201, 201, 201, 10]);
        assert!(
            problems(&median)
                .iter()
                .any(|problem| problem.contains("median"))
        );
        let mut p90 = vec![10; 8];
        p90.extend([501, 501]);
        assert!(
            problems(&files(&p90))
                .iter()
                .any(|problem| problem.contains("90th"))
        );
        let hard = problems(&files(&[10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 701]));
        assert!(hard.iter().any(|problem| problem.contains("701 lines")));
        assert_eq!(problems(&files(&[0, 5])).len(), 1);
    }

    #[test]
    fn a_small_tree_is_fine() {
        assert!(problems(&files(&[200, 200, 100, 30])).is_empty());
        assert!(problems(&[]).is_empty());
    }
}
