//! What one node says when the doctor knocks: the questions, and their answers as facts.

use std::time::Duration;

use crate::{
    clock::Tick,
    commands::status::report::{field, version},
    protocol::{Query, Refusal, Reply, Request, Round, Testimony, Token, Trouble},
};

/// How long the probe key would stay if its removal failed.
const PROBE_TTL: Duration = Duration::from_secs(10);

/// How long clocks are watched.
pub const WATCH: Duration = Duration::from_secs(1);

/// What locks need to be allowed to do, tried one by one with the probe key.
pub const NEEDED: [&str; 8] = ["eval", "set", "get", "type", "pttl", "pexpire", "del", "time"];

/// What they do better with.
const USEFUL: [&str; 3] = ["publish", "pubsub|numsub", "subscribe"];

/// Places of the questions.
const INFO: usize = 0;
const TIME: usize = 1;
const WHO: usize = 2;
const SAVE: usize = 3;
const TRIALS: usize = 4;
const PUBLISH: usize = TRIALS + NEEDED.len();
const TIME_AGAIN: usize = PUBLISH + USEFUL.len() + 1;

/// The questions. The probe key is the only one of the interview's keys.
pub fn questions(token: Token, key: &str, channel: &str) -> Vec<Round> {
    let ttl = PROBE_TTL;
    let ms = ttl.as_millis().to_string();
    let words = |words: &[&str]| Request::Query(Query::words(words));
    let acquire = Request::Acquire { token, value: token.to_string(), ttl };
    vec![
        Round::of(vec![
            Request::Query(Query::info()),
            Request::Query(Query::time()),
            words(&["ACL", "WHOAMI"]),
            words(&["CONFIG", "GET", "save"]),
            acquire,
            words(&["SET", key, &token.to_string(), "PX", &ms]),
            words(&["GET", key]),
            words(&["TYPE", key]),
            words(&["PTTL", key]),
            words(&["PEXPIRE", key, &ms]),
            words(&["DEL", key]),
            words(&["TIME"]),
            words(&["PUBLISH", channel, ""]),
            words(&["PUBSUB", "NUMSUB", channel]),
            Request::Subscribe,
            // Where DEL alone is not allowed, a release may be.
            Request::Release { token, announce: false },
        ]),
        Round { after: WATCH, questions: vec![Request::Query(Query::time())] },
    ]
}

/// When a node said which time it is.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// When it was asked.
    pub sent: Tick,
    /// When the answer came.
    pub came: Tick,
    /// What it said, since 1970.
    pub time: Duration,
}

/// Everything that is known of one node.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Why nothing more came.
    pub trouble: Option<Trouble>,
    /// When its certificate ends, since 1970.
    pub certificate_ends: Option<Duration>,
    /// Why it would not take a lock, first of all reasons that are not about rights.
    pub refusal: Option<Refusal>,
    /// What the user may not run, of what locks need.
    pub missing: Vec<&'static str>,
    /// What the user may not run, of what locks do better with.
    pub missed: Vec<&'static str>,
    /// The user may not touch the probe key.
    pub no_keys: bool,
    /// The user may not use the channels.
    pub no_channels: bool,
    /// The user is not allowed INFO.
    pub no_info: bool,
    /// The text of INFO.
    pub info: Option<String>,
    /// Who we are there.
    pub user: Option<String>,
    /// When it saves its memory to disk; `None` when it does not say.
    pub save: Option<String>,
    /// The first and the last reading of its clock.
    pub clock: Vec<ClockReading>,
    /// How long one answer took.
    pub latency: Option<Duration>,
}

impl Facts {
    /// Reads the answers to [`questions`].
    pub fn of(testimony: &Testimony) -> Self {
        let refused = |place: usize| match testimony.reply(place) {
            Some(Reply::Refused(refusal)) => Some(refusal.clone()),
            _ => None,
        };
        let data = |place: usize| match testimony.reply(place) {
            Some(Reply::Data(data)) => Some(data),
            _ => None,
        };
        let mut facts = Self {
            trouble: testimony.trouble.clone(),
            certificate_ends: testimony.certificate_ends,
            no_info: refused(INFO).is_some_and(|refusal| is_noperm(&refusal)),
            info: data(INFO).and_then(crate::protocol::Datum::text),
            user: data(WHO).and_then(crate::protocol::Datum::text),
            save: data(SAVE)
                .and_then(|data| data.of(b"save"))
                .and_then(crate::protocol::Datum::text),
            latency: testimony.answers.first().map(crate::protocol::Answer::took),
            ..Self::default()
        };
        let trials = NEEDED.iter().zip(TRIALS..).map(|(name, place)| (*name, place, true));
        let useful = USEFUL.iter().zip(PUBLISH..).map(|(name, place)| (*name, place, false));
        for (name, place, needed) in trials.chain(useful) {
            let Some(refusal) = refused(place) else { continue };
            match lacking(&refusal, name) {
                Some(Lacking::Command) if needed => facts.missing.push(name),
                Some(Lacking::Command) => facts.missed.push(name),
                Some(Lacking::Keys) => facts.no_keys = true,
                Some(Lacking::Channels) => facts.no_channels = true,
                None if needed && facts.refusal.is_none() => facts.refusal = Some(refusal),
                // A command inside of the script: the trial of it alone tells which.
                Some(Lacking::InScript) | None => {}
            }
        }
        for place in [TIME, TIME_AGAIN] {
            if let Some(answer) = testimony.answers.get(place)
                && let Reply::Data(data) = &answer.reply
                && let Some(time) = data.time()
            {
                facts.clock.push(ClockReading { sent: answer.sent, came: answer.came, time });
            }
        }
        facts
    }

    /// Whether it would, with more rights.
    pub fn lacks_rights(&self) -> bool {
        self.no_keys || !self.missing.is_empty()
    }

    /// The value of `name` in INFO.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(self.info.as_deref()?, name)
    }

    /// A number in INFO.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.field(name)?.parse().ok()
    }

    /// The server's version.
    pub fn version(&self) -> Option<String> {
        version(self.info.as_deref()?)
    }

    /// How long the server runs, in seconds rounded up.
    pub fn uptime(&self) -> Option<Duration> {
        let uptime = u64::try_from(self.number("uptime_in_seconds")?).ok()?;
        Some(Duration::from_secs(uptime))
    }
}

/// What a user lacks.
enum Lacking {
    Command,
    Keys,
    Channels,
    InScript,
}

fn is_noperm(refusal: &Refusal) -> bool {
    refusal.text.starts_with("NOPERM")
}

fn lacking(refusal: &Refusal, command: &str) -> Option<Lacking> {
    let text = refusal.text.to_ascii_lowercase();
    if text.contains("the user executing the script can't") {
        return Some(if text.contains("keys") { Lacking::Keys } else { Lacking::InScript });
    }
    // Renamed or taken away.
    if text.contains("unknown command") && text.contains(&format!("'{command}'")) {
        return None;
    }
    if !is_noperm(refusal) {
        return None;
    }
    Some(if text.contains("channel") {
        Lacking::Channels
    } else if text.contains("key") {
        Lacking::Keys
    } else {
        Lacking::Command
    })
}
