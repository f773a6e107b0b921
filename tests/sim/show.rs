//! How requests and answers look in a trace.

use redlock::protocol::{LinkEvent, Obstacle, Occupant, Reply, Request, Token};

fn short(token: Token) -> String {
    token.to_string().chars().take(4).collect()
}

/// One request in a few words.
pub fn show(request: &Request) -> String {
    match request {
        Request::Acquire { token, ttl, .. } => format!("acquire {} {ttl:?}", short(*token)),
        Request::AcquireCounted { token, ttl, .. } => format!("count {} {ttl:?}", short(*token)),
        Request::Seal { token, counted, number } => {
            format!("seal {} {counted:?} {number}", short(*token))
        }
        Request::Heal { token, ttl, .. } => format!("heal {} {ttl:?}", short(*token)),
        Request::Extend { token, ttl } => format!("extend {} {ttl:?}", short(*token)),
        Request::Release { token, announce } => {
            let word = if *announce { "release" } else { "undo" };
            format!("{word} {}", short(*token))
        }
        Request::Subscribe => "subscribe".into(),
        Request::Attend => "attend".into(),
        Request::Look => "look".into(),
        Request::Only { key, request } => format!("{} of key {key}", show(request)),
        other => format!("{other:?}"),
    }
}

/// One answer in a few words.
pub fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Held(obstacles) => {
            let who = |o: &Obstacle| {
                let text = match &o.occupant {
                    Occupant::Value(value) => String::from_utf8_lossy(value),
                    Occupant::Type(name) => name.into(),
                };
                format!("{} {:?}", text.chars().take(4).collect::<String>(), o.expires_in)
            };
            format!("held by {}", obstacles.iter().map(who).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// One event of a connection in a few words.
pub fn show_event(event: &LinkEvent) -> String {
    match event {
        LinkEvent::Replied(reply) => show_reply(reply),
        other => format!("{other:?}"),
    }
}
