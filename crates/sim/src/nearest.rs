//! Suggests an existing name for a mistyped one.

/// Letters of a mistyped name that are compared; a file may hold a key of any length.
const LETTERS: usize = 256;

/// Returns the name with the smallest edit distance from `from`; `None` if that distance is more
/// than a third of the name's letters and 1.
pub(crate) fn nearest<'a>(from: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let from: String = from.chars().take(LETTERS).collect();
    let near = names.map(|name| (strsim::levenshtein(&from, name), name));
    let (distance, name) = near.min()?;
    (distance <= name.len() / 3 + 1).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swapped_letter_is_near_and_another_word_is_not() {
        let names = || ["seed", "scale"].into_iter();
        assert_eq!(nearest("sede", names()), Some("seed"));
        assert_eq!(nearest("generations", names()), None);
    }
}
