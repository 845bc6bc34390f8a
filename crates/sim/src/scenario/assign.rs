//! Replaces values of an experiment file: by `--set KEY=VALUE`, and by each combination of a sweep.
//!
//! Invariant: all spellings of a key name the same value of the file.

use toml::{Table, Value};

/// Parses `key=value`. The value is parsed as TOML; if that fails, it is a string. `None` if `=` is
/// missing.
pub(super) fn assignment(given: &str) -> Option<(String, Value)> {
    let (key, value) = given.split_once('=')?;
    let as_toml = toml::from_str::<Table>(&format!("x = {value}")).ok();
    let parsed = as_toml.and_then(|mut table| table.remove("x"));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    Some((key.trim().to_owned(), value))
}

/// Sets `key`, which is a path of names with dots between. An element of a list is named by its
/// `name`, or otherwise by its number.
pub(super) fn assign(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let (path, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = table;
    let mut names = path.split('.').filter(|name| !name.is_empty());
    while let Some(name) = names.next() {
        let next = at.entry(name).or_insert_with(|| Value::Table(Table::new()));
        at = match next {
            Value::Table(table) => table,
            Value::Array(list) => {
                let which = names
                    .next()
                    .ok_or("a list needs a number or a name after it")?;
                let element = index_of(list, which).and_then(|index| list.get_mut(index));
                element
                    .and_then(Value::as_table_mut)
                    .ok_or_else(|| format!("there is no {name} `{which}`"))?
            }
            _ => return Err(format!("`{name}` is a value and has no keys")),
        };
    }
    if last.is_empty() {
        return Err("the key is empty".to_owned());
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// Returns the index of the element of a list that has this name. If none has it, the text is
/// parsed as an index. (A tenant may be named `1`.)
fn index_of(list: &[Value], which: &str) -> Option<usize> {
    let named = |v: &Value| v.get("name").and_then(Value::as_str) == Some(which);
    let by_name = list.iter().position(named);
    by_name.or_else(|| which.parse().ok())
}

/// Returns the key with numbers in place of the names of list elements, so that each key has only
/// one spelling.
pub(super) fn spelled_out(table: &Table, key: &str) -> String {
    let (mut at, mut all) = (
        table.get(key.split('.').next().unwrap_or_default()),
        Vec::new(),
    );
    for (depth, name) in key.split('.').enumerate() {
        let mut name = name.to_owned();
        if depth > 0 {
            at = match at {
                Some(Value::Array(list)) => {
                    let index = index_of(list, &name);
                    if let Some(index) = index {
                        name = index.to_string();
                    }
                    index.and_then(|index| list.get(index))
                }
                at => at.and_then(|value| value.get(&name)),
            };
        }
        all.push(name);
    }
    all.join(".")
}
