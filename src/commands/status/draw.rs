//! The tables of `status`, drawn from the report.

use std::{fmt::Write as _, time::Duration};

use super::report::{CellRow, LockRow, NodeRow};
use crate::{
    duration::show,
    ui::{self, Hue, Palette, Table},
};

fn millis(time: Option<u64>) -> String {
    time.map_or_else(|| "-".to_owned(), |ms| show(Duration::from_millis(ms)))
}

fn seconds(time: u64) -> String {
    if time == 0 { "0s".to_owned() } else { show(Duration::from_secs(time)) }
}

/// The table of the nodes, and which list it is.
pub fn nodes(rows: &[NodeRow], source: &str, palette: Palette) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(node).collect();
    let titles = ["NODE", "STATE", "LATENCY", "VERSION", "UPTIME", ""];
    let (table, mut text) = Table::open(&titles, &cells);
    for (row, cells) in rows.iter().zip(&cells) {
        let state = if row.reachable { Hue::Good } else { Hue::Bad };
        let young = row.votes_in_s.map(|_| Hue::Warning);
        let hue = |column| if column == 1 { Some(state) } else { young.filter(|_| column == 5) };
        text.push_str(&table.painted(cells, palette, hue));
    }
    let up = rows.iter().filter(|row| row.reachable).count();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{up} of {} nodes reachable (from {source})", rows.len());
    text
}

fn node(row: &NodeRow) -> Vec<String> {
    let dash = || "-".to_owned();
    vec![
        row.node.clone(),
        row.reason.clone().unwrap_or_else(|| "reachable".to_owned()),
        row.latency_ms.filter(|_| row.reachable).map_or_else(dash, |ms| format!("{ms:.1}ms")),
        row.version.clone().unwrap_or_else(dash),
        row.uptime_s.map_or_else(dash, seconds),
        row.votes_in_s.map_or_else(String::new, |s| format!("votes in {}", seconds(s))),
    ]
}

const TITLES: [&str; 8] =
    ["KEY", "STATE", "NODES", "EXPIRES IN", "HELD FOR", "WAITERS", "LIFE", "HOLDER"];

/// The table of the locks, page by page.
pub struct Locks {
    palette: Palette,
    table: Option<Table>,
}

impl Locks {
    /// A table without rows yet.
    pub const fn new(palette: Palette) -> Self {
        Self { palette, table: None }
    }

    /// The next rows.
    pub fn page(&mut self, rows: &[LockRow]) -> String {
        let cells: Vec<Vec<String>> = rows.iter().map(lock).collect();
        let mut text = String::new();
        let table = self.table.get_or_insert_with(|| {
            let (table, titles) = Table::open(&TITLES, &cells);
            text.push_str(&titles);
            table
        });
        for (row, cells) in rows.iter().zip(&cells) {
            let hue = |column| match column {
                1 => state_hue(row.state),
                6 => life_hue(row.life),
                _ => None,
            };
            text.push_str(&table.painted(cells, self.palette, hue));
        }
        text
    }
}

fn state_hue(state: &str) -> Option<Hue> {
    match state {
        "held" => Some(Hue::Good),
        "partial" => Some(Hue::Warning),
        "unknown" => Some(Hue::Bad),
        _ => None,
    }
}

fn life_hue(life: &str) -> Option<Hue> {
    matches!(life, "late" | "leftover" | "endless").then_some(Hue::Warning)
}

fn lock(row: &LockRow) -> Vec<String> {
    vec![
        row.key.clone(),
        row.state.to_owned(),
        format!("{}/{}", row.on, row.of),
        millis(row.expires_in_ms),
        millis(row.held_for_ms),
        row.waiters.map_or_else(|| "-".to_owned(), |count| count.to_string()),
        row.life.to_owned(),
        who(row),
    ]
}

/// The holder in one cell.
fn who(row: &LockRow) -> String {
    let Some(holder) = &row.holder else {
        return match (&row.foreign, &row.token) {
            (Some(what), _) => format!("another client's: {what}"),
            (None, Some(_)) => "a bare token".to_owned(),
            (None, None) => "-".to_owned(),
        };
    };
    let mut remarks = vec![holder.user.clone()];
    remarks.extend(holder.prog.clone());
    remarks.extend(holder.label.clone());
    let other = if holder.other_list { " [another node list]" } else { "" };
    format!("{} pid {} ({}){other}", holder.host, holder.pid, remarks.join(", "))
}

/// One lock in full: the row, the nodes, what to do.
pub fn block(row: &LockRow, palette: Palette) -> String {
    let mut text = Locks::new(palette).page(std::slice::from_ref(row));
    let cells: Vec<Vec<String>> = row.nodes.iter().map(cell).collect();
    let (table, titles) = Table::open(&["  NODE", "SHOWS", "EXPIRES IN"], &cells);
    text.push_str(&titles);
    for cell in &cells {
        text.push_str(&table.row(cell));
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", ui::clean(&row.advice));
    if let Some(line) = &row.release {
        let _ = writeln!(text, "to free it: {}", ui::clean(line));
    }
    if row.holder.as_ref().is_some_and(|holder| holder.other_list) {
        let _ = writeln!(
            text,
            "it was taken with another list of nodes, db or prefix: both lists may have a quorum \
             of their own; see redlock doctor"
        );
    }
    text
}

fn cell(row: &CellRow) -> Vec<String> {
    let shows = match (row.shows, &row.what) {
        ("token", Some(token)) => token.clone(),
        ("value", Some(value)) => format!("another client's value: {value}"),
        ("type", Some(kind)) => format!("a {kind} of another program"),
        ("unknown", _) => "no answer".to_owned(),
        (word, _) => word.to_owned(),
    };
    let taken = matches!(row.shows, "token" | "value" | "type");
    let expires = match row.expires_in_ms {
        Some(_) => millis(row.expires_in_ms),
        None if taken => "never".to_owned(),
        None => "-".to_owned(),
    };
    vec![format!("  {}", row.node), shows, expires]
}
