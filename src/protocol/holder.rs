//! What a lock's value says about its holder, so that everybody who finds it held can name them.

use serde::{Deserialize, Serialize};

use super::{Occupant, Token};

/// The data behind the token: compact JSON, at most 1 KiB with the token. Times are Unix times and
/// durations in milliseconds. Never arguments or environment of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// Host name of the holder.
    pub host: String,
    /// Process id of the holder on its host.
    pub pid: u32,
    /// The user it runs as.
    pub user: String,
    /// When the lock was asked for, by the holder's clock.
    pub since: u64,
    /// The lock's ttl.
    pub ttl: u64,
    /// How many nodes the holder's list has.
    pub n: u8,
    /// Fingerprint of the holder's node list, db and prefix.
    pub fleet: String,
    /// How often the holder extends; absent when nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Until when a finished job keeps the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// A remark for everybody who finds the lock held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name of the program that runs under the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prog: Option<String>,
}

impl Holder {
    /// The greatest length of a value in bytes.
    pub const MAX_VALUE: usize = 1024;

    /// Whether it was taken with this list of so many nodes; if not, its quorum and one of this list
    /// need not meet.
    pub fn has_list(&self, nodes: usize, fleet: &str) -> bool {
        usize::from(self.n) == nodes && self.fleet == fleet
    }

    /// The value that holds the lock for `token`. Long words are cut so that it fits.
    pub fn value(&self, token: Token) -> String {
        let mut room = 255;
        loop {
            let cut = Self {
                host: cut(&self.host, room),
                user: cut(&self.user, room),
                label: self.label.as_deref().map(|text| cut(text, room)),
                prog: self.prog.as_deref().map(|text| cut(text, room)),
                ..self.clone()
            };
            // Plain strings and integers always serialise; a bare token would still be a lock.
            let data = serde_json::to_string(&cut).unwrap_or_default();
            let value = format!("{token} {data}");
            if value.len() <= Self::MAX_VALUE || room == 0 {
                return value;
            }
            room /= 2;
        }
    }

    /// Reads the holder's data out of a value; `None` when it is not redlock's.
    pub fn of_value(value: &[u8]) -> Option<Self> {
        Token::of_value(value)?;
        serde_json::from_slice(value.get(Token::LENGTH + 1..)?).ok()
    }
}

/// The first `room` bytes of `text`, on a character boundary.
fn cut(text: &str, room: usize) -> String {
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// By what one holder is told from another: the token of a value of ours, the whole of anybody
/// else's, the type of what is no string.
pub fn identity(occupant: &Occupant) -> &[u8] {
    match occupant {
        Occupant::Value(value) if Token::of_value(value).is_some() => &value[..Token::LENGTH],
        Occupant::Value(value) => value,
        Occupant::Type(name) => name.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder {
            host: "db1".into(),
            pid: 4242,
            user: "backup".into(),
            since: 1_700_000_000_000,
            ttl: 30_000,
            n: 5,
            fleet: "0a1b2c3d".into(),
            every: Some(10_000),
            prog: Some("backup.sh".into()),
            ..Holder::default()
        }
    }

    #[test]
    fn value_is_the_token_a_space_and_compact_json() {
        let token = Token::from_random(1);
        let value = holder().value(token);
        assert_eq!(
            value,
            format!(
                "{token} {{\"host\":\"db1\",\"pid\":4242,\"user\":\"backup\",\
                 \"since\":1700000000000,\"ttl\":30000,\"n\":5,\"fleet\":\"0a1b2c3d\",\
                 \"every\":10000,\"prog\":\"backup.sh\"}}"
            )
        );
        assert_eq!(Holder::of_value(value.as_bytes()), Some(holder()));
    }

    #[test]
    fn values_of_other_clients_have_no_holder() {
        for value in ["thief", "", "00000000-0000-4000-8000-000000000001x"] {
            assert_eq!(Holder::of_value(value.as_bytes()), None, "{value}");
        }
        // A bare token is a lock of ours about which nothing is known.
        let bare = Token::from_random(1).to_string();
        assert_eq!(Holder::of_value(bare.as_bytes()), None);
    }

    #[test]
    fn fields_of_later_versions_do_not_hide_the_holder() {
        let value = format!("{} {{\"host\":\"a\",\"colour\":[1]}}", Token::from_random(1));
        assert_eq!(Holder::of_value(value.as_bytes()).unwrap().host, "a");
    }

    proptest::proptest! {
        #[test]
        fn value_never_exceeds_its_bound(host in ".{0,400}", label in ".{0,400}", prog in ".{0,900}") {
            let holder = Holder { host, label: Some(label), prog: Some(prog), ..holder() };
            let value = holder.value(Token::from_random(1));
            proptest::prop_assert!(value.len() <= Holder::MAX_VALUE);
            proptest::prop_assert!(Holder::of_value(value.as_bytes()).is_some());
        }
    }

    #[test]
    fn identity_is_the_token_not_the_data() {
        let token = Token::from_random(9);
        let value = |data: &str| Occupant::Value(format!("{token} {data}").into_bytes());
        assert_eq!(identity(&value("{}")), identity(&value("{\"pid\":1}")));
        assert_eq!(identity(&Occupant::Value(b"thief".to_vec())), b"thief");
        assert_eq!(identity(&Occupant::Type("hash".into())), b"hash");
    }
}
