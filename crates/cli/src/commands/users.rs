//! Names of users, from `/etc/passwd`. For users that only a directory service knows, the number is
//! shown.

use std::collections::BTreeMap;

/// Returns names by user id; empty if the file cannot be read.
pub(super) fn users() -> BTreeMap<u32, String> {
    // Names are optional: without them the numbers are shown.
    named(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
}

fn named(passwd: &str) -> BTreeMap<u32, String> {
    let mut users = BTreeMap::new();
    for line in passwd.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(uid))) = (fields.next(), fields.nth(1).map(str::parse)) {
            // If an id has several names, tools show the first one.
            users.entry(uid).or_insert_with(|| name.to_owned());
        }
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_an_id_counts() {
        let users =
            named("root:x:0:0::/root:/bin/sh\ntoor:x:0:0::\nbroken\na:b:c:d\nme:x:1000:1::\n");
        assert_eq!(users.get(&0).map(String::as_str), Some("root"));
        assert_eq!(users.get(&1000).map(String::as_str), Some("me"));
        assert_eq!(users.len(), 2);
    }
}
