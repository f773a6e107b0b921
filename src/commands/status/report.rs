//! What `status` has found out, as one value: `--json` is this value, and the tables are drawn
//! from it. The version `v` grows when a field changes its meaning or goes away; new fields may
//! come at any time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::{
    duration::show,
    protocol::{
        Cell, Datum, GuardTerms, Holder, Key, Leader, Life, Lock, Occupant, Reply, State, Suffrage,
        Testimony, Token, suffrage,
    },
    settings::Target,
    ui,
};

/// The version of the schema.
pub const VERSION: u32 = 1;

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeRow {
    /// As it is written in the list, without credentials.
    pub node: String,
    /// Whether it answered what it was asked.
    pub reachable: bool,
    /// Why not.
    pub reason: Option<String>,
    /// How long one answer took, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The server's version.
    pub version: Option<String>,
    /// How long the server runs, in seconds.
    pub uptime_s: Option<u64>,
    /// After how long it has a vote in a fresh acquisition, in seconds; null when it has one.
    pub votes_in_s: Option<u64>,
}

/// Who holds a lock, as the value says.
#[derive(Clone, Debug, Serialize)]
pub struct HolderRow {
    /// Host name.
    pub host: String,
    /// Process id there.
    pub pid: u32,
    /// User there.
    pub user: String,
    /// A remark.
    pub label: Option<String>,
    /// The program under the lock.
    pub prog: Option<String>,
    /// When the lock was asked for, in ms since 1970, by the holder's clock.
    pub since_ms: u64,
    /// The lock's ttl.
    pub ttl_ms: u64,
    /// How often the holder extends; null when nobody does.
    pub every_ms: Option<u64>,
    /// Until when the lock of a finished command is kept, in ms since 1970, by the holder's clock;
    /// null while it is not finished.
    pub until_ms: Option<u64>,
    /// Whether the lock was taken with another list of nodes.
    pub other_list: bool,
}

/// What one node shows at one key.
#[derive(Clone, Debug, Serialize)]
pub struct CellRow {
    /// The node.
    pub node: String,
    /// `free`, `token`, `value` (another client's), `type` (no string) or `unknown`.
    pub shows: &'static str,
    /// The token, the head of the value, or the type.
    pub what: Option<String>,
    /// When the node drops it; null for never.
    pub expires_in_ms: Option<u64>,
}

/// One lock.
#[derive(Clone, Debug, Serialize)]
pub struct LockRow {
    /// Its name, without the prefix; bytes that are no UTF-8 are replaced.
    pub key: String,
    /// `held`, `unknown`, `partial` or `free`.
    pub state: &'static str,
    /// Nodes that show the claim that is on most of them.
    pub on: usize,
    /// All nodes.
    pub of: usize,
    /// When the last of these nodes drops it; null for never.
    pub expires_in_ms: Option<u64>,
    /// For how long it is held, by the holder's clock and ours; null when unknown.
    pub held_for_ms: Option<u64>,
    /// How many wait for it by subscription; null when unknown.
    pub waiters: Option<u64>,
    /// `alive`, `late`, `kept`, `acquired`, `finished`, `leftover`, `foreign`, `endless` or `none`.
    pub life: &'static str,
    /// How long ago the holder extended it at the latest.
    pub extended_ago_ms: Option<u64>,
    /// The token, of a value of redlock's.
    pub token: Option<String>,
    /// Who holds it, as far as the value says.
    pub holder: Option<HolderRow>,
    /// Another client's value (its head), or `hash`, `zset`, ... for what is no string.
    pub foreign: Option<String>,
    /// One line for an operator.
    pub advice: String,
    /// The line that frees it, where one does.
    pub release: Option<String>,
    /// Node by node.
    pub nodes: Vec<CellRow>,
}

/// What rows are made with.
pub struct Maker<'a> {
    target: &'a Target,
    fingerprint: String,
    now: SystemTime,
}

impl<'a> Maker<'a> {
    /// For what was found on the nodes of `target` just now.
    pub fn new(target: &'a Target) -> Self {
        let fingerprint = target.fleet.fingerprint(&target.prefix);
        Self { target, fingerprint, now: SystemTime::now() }
    }

    /// One row for each node, from its answers of which the first is INFO. By `guard` a node
    /// that forgot everything must not vote.
    pub fn nodes(&self, said: &[Testimony], guard: GuardTerms) -> Vec<NodeRow> {
        let info: Vec<Option<String>> = said
            .iter()
            .map(|testimony| match testimony.reply(0) {
                Some(Reply::Data(data)) => data.text(),
                _ => None,
            })
            .collect();
        let uptime = |info: &Option<String>| -> Option<u64> {
            field(info.as_deref()?, "uptime_in_seconds")?.parse().ok()
        };
        let uptimes = info.iter().map(|info| uptime(info).map(Duration::from_secs));
        let votes = suffrage(guard, &uptimes.collect::<Vec<_>>());
        let rows = self.target.names.iter().zip(said).zip(info.iter().zip(votes));
        rows.map(|((name, testimony), (info, vote))| {
            let reason = reason(testimony);
            NodeRow {
                node: name.clone(),
                reachable: reason.is_none(),
                reason,
                latency_ms: testimony
                    .answers
                    .first()
                    .map(|answer| (answer.took().as_secs_f64() * 100_000.0).round() / 100.0),
                version: info.as_deref().and_then(version),
                uptime_s: uptime(info),
                // Rounded up: a promise is better late than early.
                votes_in_s: match vote {
                    Suffrage::In(rest) => Some(rest.as_secs() + 1),
                    Suffrage::Now | Suffrage::Never => None,
                },
            }
        })
        .collect()
    }

    /// The row of one lock.
    pub fn lock(&self, lock: &Lock) -> LockRow {
        let leader = lock.leader();
        let holder = leader.as_ref().and_then(Leader::holder);
        let token = leader.as_ref().and_then(Leader::token);
        let life = lock.life(self.target.timing.node_timeout);
        let state = lock.state();
        let foreign =
            leader.as_ref().filter(|_| token.is_none()).map(|leader| match leader.occupant {
                Occupant::Value(value) => head(value),
                Occupant::Type(name) => name.clone(),
            });
        let key = String::from_utf8_lossy(&lock.name).into_owned();
        let release =
            token.map(|token| format!("redlock release -k {} --token {token}", shell_quoted(&key)));
        let held_for = holder.as_ref().map(|holder| {
            let since = UNIX_EPOCH.checked_add(Duration::from_millis(holder.since));
            // A clock that is behind the holder's: not below zero.
            since.and_then(|since| self.now.duration_since(since).ok()).unwrap_or_default()
        });
        LockRow {
            state: state.word(),
            on: leader.as_ref().map_or(0, |leader| leader.nodes.len()),
            of: lock.cells.len(),
            expires_in_ms: leader.as_ref().and_then(|leader| leader.expires_in).map(millis),
            held_for_ms: held_for.map(millis),
            waiters: lock.waiters,
            life: word(&life),
            extended_ago_ms: match &life {
                Life::Alive { extended: ago } | Life::Late { silent: ago, .. } => {
                    Some(millis(*ago))
                }
                _ => None,
            },
            token: token.map(|token| token.to_string()),
            advice: advice(state, &life, holder.as_ref(), leader.as_ref().map(|l| l.nodes.len())),
            holder: holder.map(|holder| HolderRow {
                other_list: !holder.has_list(lock.cells.len(), &self.fingerprint),
                host: holder.host,
                pid: holder.pid,
                user: holder.user,
                label: holder.label,
                prog: holder.prog,
                since_ms: holder.since,
                ttl_ms: holder.ttl,
                every_ms: holder.every,
                until_ms: holder.until,
            }),
            foreign,
            release,
            nodes: self.cells(lock),
            key,
        }
    }

    fn cells(&self, lock: &Lock) -> Vec<CellRow> {
        let rows = self.target.names.iter().zip(&lock.cells);
        rows.map(|(name, cell)| {
            let (shows, what, expires_in) = match cell {
                Cell::Unknown => ("unknown", None, None),
                Cell::Free => ("free", None, None),
                Cell::Taken { occupant: Occupant::Value(value), expires_in } => {
                    match Token::of_value(value) {
                        Some(token) => ("token", Some(token.to_string()), *expires_in),
                        None => ("value", Some(head(value)), *expires_in),
                    }
                }
                Cell::Taken { occupant: Occupant::Type(kind), expires_in } => {
                    ("type", Some(kind.clone()), *expires_in)
                }
            };
            CellRow { node: name.clone(), shows, what, expires_in_ms: expires_in.map(millis) }
        })
        .collect()
    }
}

/// Why a node did not say what it was asked; the first thing that went wrong.
pub fn reason(testimony: &Testimony) -> Option<String> {
    let refused = testimony.answers.iter().find_map(|answer| match &answer.reply {
        Reply::Refused(refusal) => Some(format!("refused: {}", refusal.text)),
        _ => None,
    });
    let failed = testimony.trouble.as_ref().map(ui::trouble);
    // A trouble at the end says less than a refusal before it.
    refused.or(failed)
}

/// The value of `name` in the text of INFO.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The server's version: Valkey keeps the number of the Redis it came from beside its own.
pub fn version(info: &str) -> Option<String> {
    let valkey = field(info, "valkey_version").map(|version| format!("valkey {version}"));
    valkey.or_else(|| field(info, "redis_version").map(str::to_owned))
}

/// Locks with these keys, from the answers to INFO, look and NUMSUB.
pub fn locks(keys: &[Key], said: &[Testimony]) -> Vec<Lock> {
    let of = |place: usize, key: &Key| {
        let cells = said.iter().map(|testimony| match testimony.reply(1) {
            Some(Reply::Absent) => Cell::Free,
            Some(Reply::Held(obstacles)) => {
                let found = obstacles.iter().find(|obstacle| obstacle.key == place);
                found.map_or(Cell::Free, |found| Cell::Taken {
                    occupant: found.occupant.clone(),
                    expires_in: found.expires_in,
                })
            }
            _ => Cell::Unknown,
        });
        let channel = key.released_channel();
        let waiters = said.iter().filter_map(|testimony| match testimony.reply(2) {
            Some(Reply::Data(data)) => u64::try_from(data.of(&channel).and_then(Datum::int)?).ok(),
            _ => None,
        });
        Lock { name: key.name().to_vec(), cells: cells.collect(), waiters: waiters.max() }
    };
    keys.iter().enumerate().map(|(place, key)| of(place, key)).collect()
}

fn word(life: &Life) -> &'static str {
    match life {
        Life::Alive { .. } => "alive",
        Life::Late { .. } => "late",
        Life::Kept { .. } => "kept",
        Life::Acquired { .. } => "acquired",
        Life::Finished { .. } => "finished",
        Life::Foreign { .. } => "foreign",
        Life::Endless => "endless",
        Life::Leftover { .. } => "leftover",
        Life::Nothing => "none",
    }
}

/// What an operator can do about it.
fn advice(state: State, life: &Life, holder: Option<&Holder>, on: Option<usize>) -> String {
    let frees = |time: &Option<Duration>| match time {
        Some(time) => format!("frees itself in {}", show(*time)),
        None => "never frees itself".to_owned(),
    };
    let text = match life {
        Life::Alive { extended } => {
            let ago = show(*extended);
            holder.map_or_else(
                || format!("alive: extended {ago} ago"),
                |holder| {
                    let (pid, host) = (holder.pid, &holder.host);
                    format!("alive: extended {ago} ago; to stop it: TERM pid {pid} on {host}")
                },
            )
        }
        Life::Late { silent, ends_in } => {
            format!("late: not extended for {}, frees itself in {}", show(*silent), show(*ends_in))
        }
        Life::Acquired { ends_in } => {
            format!("taken by acquire, ends in {} unless it is extended", show(*ends_in))
        }
        Life::Finished { ends_in } => {
            let told = holder.map_or_else(|| "finished".to_owned(), ui::finished);
            format!("{told}, frees itself in {} (--min-hold)", show(*ends_in))
        }
        Life::Kept { ends_in } => format!(
            "kept for longer than its ttl (--min-hold or redlock extend), which hides whether its \
             holder lives: frees itself in {} at the latest, unless it is extended",
            show(*ends_in)
        ),
        Life::Foreign { ends_in: None } => "another program's, without expiry: it never frees \
            itself, and redlock never deletes it"
            .to_owned(),
        Life::Foreign { ends_in } => format!("another client's: {}", frees(ends_in)),
        Life::Endless => "somebody took its expiry away: it never frees itself".to_owned(),
        Life::Leftover { ends_in } => {
            let count = on.unwrap_or(0);
            let nodes = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
            format!("leftover on {nodes}, {}; nobody holds it", frees(ends_in))
        }
        Life::Nothing if state == State::Unknown => {
            "too few nodes answer to say whether somebody holds it".to_owned()
        }
        Life::Nothing => "free".to_owned(),
    };
    if state == State::Unknown && !matches!(life, Life::Nothing) {
        format!("{text}; too few nodes answer to say whether it is held")
    } else {
        text
    }
}

/// The head of a value, for people.
fn head(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(80).collect()
}

/// `text` as one word for a shell.
pub fn shell_quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
