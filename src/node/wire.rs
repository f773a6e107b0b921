//! Requests as bytes and answers as replies: the only place that knows the scripts, their
//! arguments, and the words of the nodes' errors. Numbers go to the wire here and nowhere else.

use std::{ops::Range, time::Duration};

use redis::{PushKind, ServerError, Value};

use crate::protocol::{
    Datum, Extent, Key, LinkEvent, Obstacle, Occupant, Query, Refusal, RefusalKind, Reply, Request,
    Token,
};

/// What turns requests on one set of keys into commands.
pub struct Wire {
    keys: Vec<Vec<u8>>,
    /// Where releases are announced.
    released: Vec<Vec<u8>>,
    /// Where the holder is addressed.
    holder: Vec<Vec<u8>>,
    acquire: String,
    extend: String,
    release: String,
    finish: String,
    look: String,
    fence: String,
    seal: String,
    /// The counters of their fencing tokens.
    counters: Vec<Vec<u8>>,
    free: String,
    strings: String,
}

impl Wire {
    /// For these keys, in this order.
    pub fn new(keys: &[Key]) -> Self {
        Self {
            keys: keys.iter().map(|key| key.on_node().to_vec()).collect(),
            released: keys.iter().map(Key::released_channel).collect(),
            holder: keys.iter().map(Key::holder_channel).collect(),
            acquire: script(concat!(
                include_str!("scripts/rights.lua"),
                include_str!("scripts/acquire.lua")
            )),
            extend: script(include_str!("scripts/extend.lua")),
            release: script(include_str!("scripts/release.lua")),
            finish: script(include_str!("scripts/finish.lua")),
            look: script(include_str!("scripts/look.lua")),
            fence: script(concat!(
                include_str!("scripts/rights.lua"),
                include_str!("scripts/fence.lua")
            )),
            seal: script(include_str!("scripts/seal.lua")),
            counters: keys.iter().map(Key::fence_counter).collect(),
            free: script(include_str!("scripts/free.lua")),
            strings: script(include_str!("scripts/strings.lua")),
        }
    }

    /// Appends the command for `request` to `out`.
    pub fn pack(&self, request: &Request, out: &mut Vec<u8>) {
        match request {
            Request::Only { key, request } => self.pack_for(*key..key + 1, request, out),
            _ => self.pack_for(0..self.keys.len(), request, out),
        }
    }

    /// The same about those of the keys alone.
    fn pack_for(&self, those: Range<usize>, request: &Request, out: &mut Vec<u8>) {
        let keys = self.keys.get(those.clone()).unwrap_or_default();
        let counters = self.counters.get(those.clone()).unwrap_or_default();
        let released = self.released.get(those).unwrap_or_default();
        let with_counters = |script: &str, token: &Token| {
            let mut cmd = redis::cmd("EVAL");
            cmd.arg(script).arg(2 * keys.len()).arg(keys).arg(counters);
            of(cmd, token)
        };
        let cmd = match request {
            Request::AcquireCounted { token, value, ttl } => {
                let mut cmd = with_counters(&self.fence, token);
                cmd.arg(value).arg(millis(*ttl)).arg("next");
                cmd
            }
            Request::Heal { token, value, ttl, number: Some(number) } => {
                let mut cmd = with_counters(&self.fence, token);
                cmd.arg(value).arg(millis(*ttl)).arg(*number);
                cmd
            }
            Request::Seal { token, counted, number } => {
                let mut cmd = with_counters(&self.seal, token);
                cmd.arg(*number).arg(counted);
                cmd
            }
            Request::Acquire { token, value, ttl }
            | Request::Heal { token, value, ttl, number: None } => {
                let mut cmd = of(eval(&self.acquire, keys), token);
                cmd.arg(value).arg(millis(*ttl));
                cmd
            }
            Request::Extend { token, ttl } => {
                let mut cmd = of(eval(&self.extend, keys), token);
                cmd.arg(millis(*ttl));
                cmd
            }
            Request::Release { token, announce } => {
                let mut cmd = of(eval(&self.release, keys), token);
                if *announce {
                    cmd.arg(released);
                }
                cmd
            }
            Request::Finish { token, value, rest } => {
                let mut cmd = of(eval(&self.finish, keys), token);
                cmd.arg(value).arg(millis(*rest));
                cmd
            }
            Request::Subscribe => {
                let mut cmd = redis::cmd("SUBSCRIBE");
                cmd.arg(&self.released);
                cmd
            }
            Request::Attend => {
                let mut leave = redis::cmd("UNSUBSCRIBE");
                leave.arg(&self.released).write_packed_command(out);
                let mut cmd = redis::cmd("SUBSCRIBE");
                cmd.arg(&self.holder);
                cmd
            }
            // One key is one key.
            Request::Only { request, .. } => return self.pack(request, out),
            Request::Look => eval(&self.look, keys),
            Request::Free { values } => {
                let mut cmd = eval(&self.free, keys);
                cmd.arg(values).arg(&self.released).arg(&self.holder);
                cmd
            }
            Request::Query(Query::Words(words)) => {
                let mut cmd = redis::Cmd::new();
                cmd.arg(words);
                cmd
            }
            Request::Query(Query::Look(keys)) => eval(&self.look, keys),
            Request::Query(Query::Strings(keys)) => eval(&self.strings, keys),
        };
        cmd.write_packed_command(out);
    }

    /// How many channels there are, each of which a subscription confirms for itself.
    pub const fn channels(&self) -> usize {
        self.keys.len()
    }

    /// What a message means to us; `None` for what anybody else may say, anywhere.
    pub fn message(&self, kind: &PushKind, data: &[Value]) -> Option<LinkEvent> {
        let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(text)]) =
            (kind, data)
        else {
            return None;
        };
        let by = Token::of_value(text);
        if self.holder.contains(channel) {
            by.map(LinkEvent::Called)
        } else if self.released.contains(channel) {
            let count = text.get(Token::LENGTH + 1..).filter(|_| by.is_some());
            let count = count.and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
            let extent = if self.keys.len() == 1 { Extent::Whole } else { Extent::Part };
            Some(LinkEvent::Released { extent, by, listeners: count.unwrap_or(1) })
        } else {
            None
        }
    }

    /// What an answer means; `None` when none of our scripts can have said it. `secret` is what no
    /// text may repeat.
    pub fn reply(&self, value: &Value, secret: Option<&str>) -> Option<Reply> {
        match value {
            Value::Int(1) => Some(Reply::Done),
            Value::Int(2) => Some(Reply::Already),
            Value::Int(0) => Some(Reply::Absent),
            Value::ServerError(error) => Some(Reply::Refused(refusal(error, secret))),
            Value::Array(parts) if matches!(parts.first(), Some(Value::Int(_))) => {
                match parts.as_slice() {
                    [Value::Int(first), Value::Array(rest)] => counters(*first, rest),
                    _ => time(parts),
                }
            }
            Value::Array(rows) if !rows.is_empty() => {
                rows.iter().map(|row| self.obstacle(row)).collect::<Option<_>>().map(Reply::Held)
            }
            _ => None,
        }
    }

    fn obstacle(&self, row: &Value) -> Option<Obstacle> {
        let Value::Array(row) = row else { return None };
        let [Value::Int(place), Value::BulkString(kind), Value::Int(pttl), head] = row.as_slice()
        else {
            return None;
        };
        let key = usize::try_from(*place).ok()?.checked_sub(1)?;
        let occupant = match head {
            Value::BulkString(head) => Occupant::Value(head.clone()),
            Value::Nil => Occupant::Type(clean(&String::from_utf8_lossy(kind))),
            _ => return None,
        };
        (key < self.keys.len()).then_some(Obstacle {
            key,
            occupant,
            // -1: it has no expiry.
            expires_in: u64::try_from(*pttl).ok().map(Duration::from_millis),
        })
    }
}

/// The same about a token.
fn of(mut cmd: redis::Cmd, token: &Token) -> redis::Cmd {
    cmd.arg(token.to_string());
    cmd
}

/// `1 or 2, (counters)`.
fn counters(first: i64, counters: &[Value]) -> Option<Reply> {
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    match first {
        1 => counters.iter().map(number).collect::<Option<_>>().map(Reply::Counted),
        2 => Some(Reply::Already),
        _ => None,
    }
}

/// `1, seconds, microseconds`.
fn time(parts: &[Value]) -> Option<Reply> {
    let [Value::Int(1), Value::Int(seconds), Value::Int(micros)] = parts else {
        return None;
    };
    let seconds = Duration::from_secs(u64::try_from(*seconds).ok()?);
    Some(Reply::Extended(seconds + Duration::from_micros(u64::try_from(*micros).ok()?)))
}

/// A script on any keys.
fn eval(script: &str, keys: &[Vec<u8>]) -> redis::Cmd {
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(script).arg(keys.len()).arg(keys);
    cmd
}

/// The answer to a query. `secret` is what no text may repeat.
pub fn data(value: Value, secret: Option<&str>) -> Reply {
    match value {
        Value::ServerError(error) => Reply::Refused(refusal(&error, secret)),
        value => Reply::Data(datum(value)),
    }
}

fn datum(value: Value) -> Datum {
    match value {
        Value::Int(number) => Datum::Int(number),
        Value::BulkString(bytes) => Datum::Text(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
            Datum::Text(text.into_bytes())
        }
        Value::Okay => Datum::Text(b"OK".to_vec()),
        Value::Array(items) | Value::Set(items) => {
            Datum::List(items.into_iter().map(datum).collect())
        }
        // As RESP2 has it.
        Value::Map(pairs) => {
            Datum::List(pairs.into_iter().flat_map(|(a, b)| [datum(a), datum(b)]).collect())
        }
        Value::Boolean(yes) => Datum::Int(yes.into()),
        _ => Datum::Nil,
    }
}

/// A script as it is sent: with what all share before it, without comments and indentation, since
/// its text goes over the network each time.
fn script(body: &str) -> String {
    let lines = include_str!("scripts/common.lua").lines().chain(body.lines());
    let lines = lines.map(str::trim).filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A duration as nodes want it: whole milliseconds, at least one, since an expiry of zero deletes,
/// and no more than a double can carry (285,000 years).
fn millis(duration: Duration) -> u64 {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    millis.clamp(1, 1 << 53)
}

/// The longest text of a refusal, in characters.
const LONGEST: usize = 200;

/// Why a node refused. A text that repeats `secret` is withheld.
pub fn refusal(error: &ServerError, secret: Option<&str>) -> Refusal {
    let text = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    let text = without_script(&text);
    let code = text.split(' ').next().unwrap_or("");
    let rights = ["NOAUTH", "WRONGPASS", "NOPERM"].contains(&code)
        // How NOPERM is said from within a script: up to Redis 7.0, and since.
        || text.contains("The user executing the script can't")
        || text.contains("ACL failure in script");
    Refusal {
        kind: if rights { RefusalKind::Rights } else { RefusalKind::State },
        text: if secret.is_some_and(|secret| repeats(text, secret)) {
            "the node's words are withheld, they repeat the password".to_owned()
        } else {
            clean(text)
        },
    }
}

/// Whether `text` contains `secret` as a node would repeat it: without line ends, and possibly cut.
fn repeats(text: &str, secret: &str) -> bool {
    let head: String = secret.chars().take(32).collect();
    let head = head.replace(['\r', '\n'], " ");
    !head.is_empty() && text.contains(&head)
}

/// The error that a command within a script met, without the script around it, which says nothing
/// to anybody: `OOM ... script: SHA, on @user_script:20.` (since 7.0) or
/// `ERR Error running script (call to f_SHA): @user_script:20: -OOM ...` (before).
fn without_script(text: &str) -> &str {
    let text = match text.rsplit_once("@user_script:") {
        Some((head, tail)) if head.starts_with("ERR Error running script") => tail
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ')
            .trim_start_matches('-'),
        _ => text,
    };
    match text.rsplit_once(" script: ") {
        Some((head, tail)) if tail.contains("@user_script") => head.trim_end_matches(','),
        _ => text,
    }
}

/// `text` without control characters, cut to a length that fits on a line.
fn clean(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(visible).take(LONGEST).collect()
}

#[cfg(test)]
mod tests;
