//! The environment of the command: everything it would have had without us, what it needs to know
//! about the lock and the nodes, and none of our secrets.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use crate::{
    child::RUN_VARIABLE,
    protocol::Token,
    settings::{Credentials, Facts, HELD},
};

/// Variables that describe the innermost run only: an outer run's are wrong in an inner one.
const INNERMOST: [&str; 5] =
    ["REDLOCK_KEY", "REDLOCK_TOKEN", "REDLOCK_TTL_MS", "REDLOCK_FENCING_TOKEN", "REDLOCK_SLOT"];

/// The one variable that is nothing but a secret. Userinfo in node URLs is the other place; who
/// fills [`Facts::reach`] has taken it out.
const PASSWORD: &str = "REDLOCK_PASSWORD";

/// What the command runs under.
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    /// The lock's token.
    pub token: Token,
    /// Its fencing token.
    pub number: Option<u64>,
    /// Which of the keys it is, where one of several was wanted.
    pub slot: Option<usize>,
}

/// The command's whole environment: `inherited`, changed by `facts` and by what it runs under. Order
/// and strangeness of what is not ours stay.
pub fn environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    facts: &Facts,
    Holding { token, number, slot }: Holding,
) -> Vec<(OsString, OsString)> {
    let mut runs = OsString::new();
    let mut held = OsString::new();
    let mut result: Vec<(OsString, OsString)> = inherited
        .into_iter()
        .filter(|(name, value)| {
            if name == RUN_VARIABLE {
                runs.clone_from(value);
            } else if name == HELD {
                held.clone_from(value);
            }
            !is_ours(name, facts)
        })
        .collect();
    let mut set = |name: &str, value: OsString| result.push((name.into(), value));
    let one = slot.and_then(|slot| facts.keys.get(slot)).map(std::slice::from_ref);
    set("REDLOCK_KEY", key_list(one.unwrap_or(&facts.keys)));
    if let Some(slot) = slot {
        set("REDLOCK_SLOT", (slot + 1).to_string().into());
    }
    set("REDLOCK_TOKEN", token.to_string().into());
    if let Some(number) = number {
        set("REDLOCK_FENCING_TOKEN", number.to_string().into());
    }
    set("REDLOCK_TTL_MS", facts.ttl.as_millis().to_string().into());
    set(HELD, appended(held, &token.to_string()));
    set(RUN_VARIABLE, appended(runs, &facts.run));
    for (name, value) in &facts.reach {
        if let Some(value) = value {
            set(name, value.clone());
        }
    }
    result
}

/// Whether the inherited variable is replaced or removed.
fn is_ours(name: &OsStr, facts: &Facts) -> bool {
    INNERMOST.iter().any(|ours| name == *ours)
        || name == HELD
        || name == RUN_VARIABLE
        || (name == PASSWORD && facts.credentials == Credentials::Hide)
        || facts.reach.iter().any(|(ours, _)| name == *ours)
}

/// One key as it is; several percent-encoded and separated by spaces.
fn key_list(keys: &[Vec<u8>]) -> OsString {
    match keys {
        [key] => OsString::from_vec(key.clone()),
        keys => keys.iter().map(|key| percent_encoded(key)).collect::<Vec<_>>().join(" ").into(),
    }
}

/// Spaces, percent signs and everything that is not printable ASCII as `%XX`.
fn percent_encoded(key: &[u8]) -> String {
    let mut text = String::new();
    for &byte in key {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// `list` with `word` at its end, where it is not in it: a run can share the lock of one around it.
fn appended(mut list: OsString, word: &str) -> OsString {
    if list.as_bytes().split(|byte| *byte == b' ').any(|other| other == word.as_bytes()) {
        return list;
    }
    if !list.as_bytes().is_empty() {
        list.push(" ");
    }
    list.push(word);
    list
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn facts() -> Facts {
        Facts {
            keys: vec![b"k".to_vec()],
            ttl: Duration::from_secs(30),
            run: "run-2".into(),
            reach: vec![
                ("REDLOCK_NODES", Some("redis://a,redis://b,redis://c".into())),
                ("REDLOCK_CONFIG", None),
            ],
            credentials: Credentials::Hide,
        }
    }

    fn build(inherited: &[(&str, &str)], facts: &Facts) -> Vec<(String, String)> {
        build_in(None, inherited, facts)
    }

    fn build_in(
        slot: Option<usize>,
        inherited: &[(&str, &str)],
        facts: &Facts,
    ) -> Vec<(String, String)> {
        let inherited = inherited.iter().map(|&(n, v)| (n.into(), v.into()));
        let holding = Holding { token: Token::from_random(1), number: None, slot };
        let mut list: Vec<_> = environment(inherited, facts, holding)
            .into_iter()
            .map(|(n, v)| (n.into_string().unwrap(), v.into_string().unwrap()))
            .collect();
        list.sort();
        list
    }

    fn get(list: &[(String, String)], name: &str) -> Option<String> {
        let mut found = list.iter().filter(|(n, _)| n == name);
        let value = found.next().map(|(_, v)| v.clone());
        assert_eq!(found.next(), None, "{name} is there twice");
        value
    }

    /// Rule 16: etcd#10840.
    #[test]
    fn what_is_not_ours_passes_unchanged() {
        let list = build(
            &[("A", "1"), ("RUNNER_TRACKING_ID", "x"), ("BASH_FUNC_f%%", "() { :; }"), ("E", "")],
            &facts(),
        );
        let token = Token::from_random(1).to_string();
        let expected = [
            ("A", "1"),
            ("BASH_FUNC_f%%", "() { :; }"),
            ("E", ""),
            ("REDLOCK_HELD", token.as_str()),
            ("REDLOCK_KEY", "k"),
            ("REDLOCK_NODES", "redis://a,redis://b,redis://c"),
            ("REDLOCK_RUN", "run-2"),
            ("REDLOCK_TOKEN", token.as_str()),
            ("REDLOCK_TTL_MS", "30000"),
            ("RUNNER_TRACKING_ID", "x"),
        ];
        assert_eq!(list, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn nested_run_lists_its_ancestors_and_drops_their_locks() {
        let outer = [
            ("REDLOCK_HELD", "t0 t1"),
            ("REDLOCK_RUN", "run-1"),
            ("REDLOCK_KEY", "outer"),
            ("REDLOCK_FENCING_TOKEN", "7"),
            ("REDLOCK_SLOT", "2"),
        ];
        let list = build(&outer, &facts());
        let token = Token::from_random(1);
        assert_eq!(get(&list, "REDLOCK_HELD"), Some(format!("t0 t1 {token}")));
        assert_eq!(get(&list, "REDLOCK_RUN"), Some("run-1 run-2".into()));
        assert_eq!(get(&list, "REDLOCK_KEY"), Some("k".into()));
        assert_eq!(get(&list, "REDLOCK_FENCING_TOKEN"), None);
        assert_eq!(get(&list, "REDLOCK_SLOT"), None);
    }

    #[test]
    fn credentials_are_hidden_unless_they_are_to_be_kept() {
        let inherited = [
            ("REDLOCK_PASSWORD", "secret"),
            ("REDLOCK_NODES", "redis://:secret@a"),
            ("REDLOCK_CONFIG", "/etc/x"),
        ];
        let list = build(&inherited, &facts());
        assert!(!format!("{list:?}").contains("secret"));
        assert_eq!(get(&list, "REDLOCK_CONFIG"), None);
        let keep = Facts { credentials: Credentials::Keep, ..facts() };
        assert_eq!(get(&build(&inherited, &keep), "REDLOCK_PASSWORD"), Some("secret".into()));
    }

    #[test]
    fn slot_is_told_with_its_own_key() {
        let slots = ["s", "s#2", "s#3"].map(|key| key.as_bytes().to_vec());
        let facts = Facts { keys: slots.to_vec(), ..facts() };
        let list = build_in(Some(1), &[("REDLOCK_SLOT", "7")], &facts);
        assert_eq!(get(&list, "REDLOCK_SLOT"), Some("2".into()));
        assert_eq!(get(&list, "REDLOCK_KEY"), Some("s#2".into()));
    }

    #[test]
    fn several_keys_are_percent_encoded_one_is_not() {
        let one = Facts { keys: vec![b"a b%".to_vec()], ..facts() };
        assert_eq!(get(&build(&[], &one), "REDLOCK_KEY"), Some("a b%".into()));
        let two = Facts { keys: vec![b"a b%".to_vec(), b"\xff:x".to_vec()], ..facts() };
        let list = build(&[], &two);
        assert_eq!(get(&list, "REDLOCK_KEY"), Some("a%20b%25 %FF:x".into()));
    }
}
