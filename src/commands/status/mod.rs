//! `redlock status`: who holds what, node by node. It looks and changes nothing.

mod draw;
pub mod report;

use std::{io, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};
use serde_json::json;

use self::{
    draw::Locks,
    report::{LockRow, Maker, NodeRow, VERSION},
};
use super::{extend::fail, talk};
use crate::{
    exit::{Code, Exit},
    node,
    protocol::{Census, Found, Gap, Obstacle, Query, Reply, Request, Round, lasts},
    settings::{StatusSettings, Target},
    signal,
    ui::{self, Progress},
    wake,
};

/// Carries it out.
pub fn run(settings: &StatusSettings) -> Exit {
    ui::warn(&settings.target.warnings);
    let result = match settings.watch {
        None => look(settings, &mut Output::Straight),
        Some(pause) => watch(settings, pause),
    };
    match result {
        Ok(Standing::Shown(exit)) => exit,
        Ok(Standing::Failed(code, text)) => fail(code, &text),
        // Whoever read our output has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Code::Success.into(),
        Err(error) => fail(Code::Failure, &error.to_string()),
    }
}

/// How a look ended.
enum Standing {
    /// All was said.
    Shown(Exit),
    /// The exit code needs a reason.
    Failed(Code, String),
}

/// Where the text goes.
enum Output {
    /// To standard output as it comes.
    Straight,
    /// To the screen as a whole.
    Screen(String),
}

impl Output {
    fn put(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Straight => ui::deliver(text),
            Self::Screen(screen) => {
                screen.push_str(text);
                Ok(())
            }
        }
    }
}

fn watch(settings: &StatusSettings, pause: Duration) -> io::Result<Standing> {
    let interrupts = signal::on_interrupt()?;
    let on_screen = ui::stdout_is_terminal() && !settings.json;
    loop {
        let mut output = if on_screen { Output::Screen(String::new()) } else { Output::Straight };
        if let Standing::Failed(code, text) = look(settings, &mut output)? {
            output.put(&format!("exit {}: {}\n", code.number(), ui::clean(&text)))?;
        }
        match output {
            Output::Screen(screen) => ui::redraw(&screen)?,
            Output::Straight if !settings.json => ui::deliver("\n")?,
            Output::Straight => {}
        }
        let mut fds = [PollFd::new(&interrupts, PollFlags::IN)];
        let timeout = Timespec::try_from(pause).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            _ => return Ok(Standing::Shown(Exit::Signal(libc::SIGINT))),
        }
    }
}

fn look(settings: &StatusSettings, output: &mut Output) -> io::Result<Standing> {
    if settings.target.keys.is_empty() { list(settings, output) } else { show(settings, output) }
}

/// What is said before the locks.
fn head(target: &Target, nodes: &[NodeRow]) -> serde_json::Value {
    json!({
        "v": VERSION,
        "source": target.source.to_string(),
        "prefix": target.prefix,
        "quorum": crate::protocol::quorum(target.names.len()),
        "nodes": nodes,
    })
}

/// Some locks, in full.
fn show(settings: &StatusSettings, output: &mut Output) -> io::Result<Standing> {
    let target = &settings.target;
    let channels = target.keys.iter().map(crate::protocol::Key::released_channel);
    let questions = vec![
        Request::Query(Query::words(&["INFO", "server"])),
        Request::Look,
        Request::Query(Query::listeners(channels)),
    ];
    let rounds = [Round::of(questions)];
    let mut said = talk::interview(&target.fleet, &target.keys, target.timing, &rounds)?;
    let locks = report::locks(&target.keys, &said);
    let guard = settings.target.guard.with(longest(&said));
    // Who may not ask for INFO or NUMSUB can still look, and the look is what counts here.
    for testimony in &mut said {
        let looked = matches!(testimony.reply(1), Some(Reply::Absent | Reply::Held(_)));
        if looked {
            testimony.answers.retain(|answer| !matches!(answer.reply, Reply::Refused(_)));
            testimony.trouble = None;
        }
    }
    let maker = Maker::new(target);
    let nodes = maker.nodes(&said, guard);
    let rows: Vec<LockRow> = locks.iter().map(|lock| maker.lock(lock)).collect();
    if settings.json {
        let mut object = head(target, &nodes);
        object["locks"] = serde_json::to_value(&rows).map_err(io::Error::other)?;
        object["gaps"] = json!([]);
        output.put(&format!("{}\n", ui::json(&object.to_string())))?;
    } else {
        output.put(&draw::nodes(&nodes, &target.source.to_string(), settings.palette))?;
        for row in &rows {
            output.put(&format!("\n{}", draw::block(row, settings.palette)))?;
        }
    }
    Ok(verdict(settings, &nodes, &rows, is_about_rights(&said)))
}

/// The longest that anything seen lasts.
fn longest(said: &[crate::protocol::Testimony]) -> Duration {
    let of = |obstacle: &Obstacle| lasts(&obstacle.occupant, obstacle.expires_in);
    let held = said.iter().filter_map(|testimony| match testimony.reply(1) {
        Some(Reply::Held(obstacles)) => obstacles.iter().map(of).max(),
        _ => None,
    });
    held.max().unwrap_or_default()
}

fn is_about_rights(said: &[crate::protocol::Testimony]) -> bool {
    let refuses = |testimony: &&crate::protocol::Testimony| {
        testimony.answers.iter().any(
            |answer| matches!(&answer.reply, Reply::Refused(refusal) if refusal.is_about_rights()),
        )
    };
    let refusing = said.iter().filter(refuses).count();
    refusing > 0 && said.len() - refusing < crate::protocol::quorum(said.len())
}

fn verdict(
    settings: &StatusSettings,
    nodes: &[NodeRow],
    rows: &[LockRow],
    rights: bool,
) -> Standing {
    let up = nodes.iter().filter(|row| row.reachable).count();
    let needed = crate::protocol::quorum(nodes.len());
    let with = |state: &str| {
        let keys = rows.iter().filter(|row| row.state == state).map(|row| row.key.as_str());
        keys.collect::<Vec<_>>().join(", ")
    };
    if settings.exit_code {
        let (held, partial, unknown) = (with("held"), with("partial"), with("unknown"));
        if !held.is_empty() {
            return Standing::Failed(Code::Busy, format!("held: {held}"));
        }
        if !partial.is_empty() {
            return Standing::Failed(Code::Busy, format!("leftovers: {partial}"));
        }
        if !unknown.is_empty() {
            let text = format!("too few nodes answer to say whether held: {unknown}");
            return Standing::Failed(Code::Unavailable, text);
        }
    }
    if up >= needed {
        return Standing::Shown(Code::Success.into());
    }
    let code = if rights { Code::Refused } else { Code::Unavailable };
    let all = nodes.len();
    Standing::Failed(code, format!("{up} of {all} nodes answer, a quorum is {needed}"))
}

/// All locks, page by page.
fn list(settings: &StatusSettings, output: &mut Output) -> io::Result<Standing> {
    let target = &settings.target;
    let census =
        Census::new(target.names.len(), target.timing, target.prefix.clone(), settings.wanted);
    let (events, news) = wake::channel()?;
    let walk = node::start(target.fleet.clone(), census, &[], events)?;
    walk.begin();
    let mut nodes = Vec::new();
    let mut rights = false;
    let mut table = Locks::new(settings.palette);
    let mut count = 0_u64;
    let mut progress = Progress::default();
    loop {
        match talk::next(&news)? {
            Found::Nodes(said) => {
                rights = is_about_rights(&said);
                nodes = Maker::new(target).nodes(&said, settings.target.guard);
                if settings.json {
                    let text = ui::json(&head(target, &nodes).to_string());
                    // The locks follow one by one: all of them at once may be too much.
                    let open = text.strip_suffix('}').unwrap_or(&text);
                    output.put(&format!("{open},\"locks\":["))?;
                } else {
                    output.put(&draw::nodes(
                        &nodes,
                        &target.source.to_string(),
                        settings.palette,
                    ))?;
                }
            }
            Found::Page { mut locks, walked } => {
                locks.sort_by(|a, b| a.name.cmp(&b.name));
                let maker = Maker::new(target);
                let rows: Vec<LockRow> = locks.iter().map(|lock| maker.lock(lock)).collect();
                progress.clear();
                if settings.json {
                    for row in &rows {
                        let text = serde_json::to_string(row).map_err(io::Error::other)?;
                        let comma = if count == 0 { "" } else { "," };
                        output.put(&format!("{comma}{}", ui::json(&text)))?;
                        count += 1;
                    }
                } else if !rows.is_empty() {
                    let gap = if count == 0 { "\n" } else { "" };
                    output.put(&format!("{gap}{}", table.page(&rows)))?;
                    count += rows.len() as u64;
                }
                progress.show(&format!("{walked} keys looked at, {count} locks"));
                walk.more();
            }
            Found::End { gaps } => {
                progress.clear();
                end(settings, output, count, &gaps)?;
                return Ok(verdict(settings, &nodes, &[], rights));
            }
        }
    }
}

fn end(
    settings: &StatusSettings,
    output: &mut Output,
    count: u64,
    gaps: &[(crate::protocol::NodeIndex, Gap)],
) -> io::Result<()> {
    let names = &settings.target.names;
    let words = |gap: &Gap| match gap {
        Gap::Failed(trouble) => ui::trouble(trouble),
        Gap::Refused(text) => format!("refused: {text}"),
    };
    let gaps = gaps.iter().map(|(node, gap)| {
        let name = names.get(node.get()).map_or("", String::as_str);
        (name, words(gap))
    });
    if settings.json {
        let gaps: Vec<_> =
            gaps.map(|(node, reason)| json!({ "node": node, "reason": reason })).collect();
        let text = serde_json::to_string(&gaps).map_err(io::Error::other)?;
        return output.put(&format!("],\"gaps\":{}}}\n", ui::json(&text)));
    }
    if count == 0 {
        output.put("\nno locks\n")?;
    }
    for (node, reason) in gaps {
        let line = format!("what only {node} knows is missing: {reason}");
        output.put(&format!("{}\n", ui::clean(&line)))?;
    }
    Ok(())
}
