//! Suggests an existing name for a mistyped one.

/// Maximum number of letters of a mistyped name that are compared, since a file may have a key of
/// any length.
const LETTERS: usize = 256;

/// Returns the name with the smallest edit distance from `from`; `None` if that distance is more
/// than 1 plus a third of the name's letters.
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
    fn a_mistyped_name_is_corrected_and_another_word_is_not() {
        let names = || ["seed", "scale"].into_iter();
        assert_eq!(nearest("sede", names()), Some("seed"));
        assert_eq!(nearest("generations", names()), None);
    }
}
