//! What is expected from a node on one connection, in order, and what its answers become.

use std::collections::VecDeque;

use redis::{PushKind, ServerError, Value};

use super::{
    codec::{Decoder, Garbage},
    endpoint::Credentials,
    introduction,
    preamble::{self, Dialect, Step},
    wire::{self, Wire},
};
use crate::protocol::{LinkEvent, Refusal, RefusalKind, Reply, Request, Trouble};

/// Whether a node was heard on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Not once.
    Silent,
    /// At least one answer came.
    Heard,
}

/// The pipeline of one connection.
pub struct Pipeline {
    expected: VecDeque<Expected>,
    dialect: Dialect,
    /// Set by the preamble: every answer behind it is this.
    refusal: Option<Refusal>,
    /// What INFO server said.
    server: String,
    voice: Voice,
    secret: Option<String>,
    decoder: Decoder,
}

enum Expected {
    Preamble(Step),
    Request,
    /// An answer of any shape.
    Query,
    /// So many confirmations, or one error.
    Subscription {
        missing: usize,
    },
    /// The same, and it is nobody's answer.
    Farewell {
        missing: usize,
    },
}

impl From<Garbage> for Trouble {
    fn from(_: Garbage) -> Self {
        Self::Garbage
    }
}

impl Pipeline {
    /// Nothing was heard yet; the preamble's `steps` are answered first.
    pub fn new(steps: Vec<Step>, credentials: Option<&Credentials>) -> Self {
        Self {
            expected: steps.into_iter().map(Expected::Preamble).collect(),
            dialect: Dialect::Unknown,
            refusal: None,
            server: String::new(),
            voice: Voice::Silent,
            secret: credentials.map(|credentials| credentials.password.clone()),
            decoder: Decoder::new(),
        }
    }

    /// What the node can do.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the node was heard.
    pub const fn voice(&self) -> Voice {
        self.voice
    }

    /// Whether nothing is expected.
    pub fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }

    /// Takes in what the node said; each answer becomes an event.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        wire: &Wire,
        mut tell: impl FnMut(LinkEvent),
    ) -> Result<(), Trouble> {
        // An alert of TLS, which is no beginning of any answer.
        if self.voice == Voice::Silent && bytes.first() == Some(&0x15) {
            return Err(Trouble::SpeaksTls);
        }
        let Self { expected, dialect, refusal, server, voice, secret, decoder } = self;
        let secret = secret.as_deref();
        let mut answers = Answers { expected, dialect, refusal, server, voice, secret };
        decoder.feed(bytes, |value| answers.take(value, wire, &mut tell))
    }

    /// Subscriptions that cannot work here are refused when it is their turn.
    pub fn answer_the_unwritten(&mut self, mut tell: impl FnMut(LinkEvent)) {
        answer_the_unwritten(&mut self.expected, self.dialect, &mut tell);
    }

    /// What the answer to `request` will look like.
    pub fn expect(&mut self, request: &Request, wire: &Wire) {
        let missing = wire.channels();
        if *request == Request::Attend {
            self.expected.push_back(Expected::Farewell { missing });
        }
        self.expected.push_back(match request {
            Request::Subscribe | Request::Attend => Expected::Subscription { missing },
            Request::Query(_) => Expected::Query,
            _ => Expected::Request,
        });
    }
}

/// Subscriptions that were not written, since they cannot work here, are refused when it is their
/// turn.
fn answer_the_unwritten(
    expected: &mut VecDeque<Expected>,
    dialect: Dialect,
    tell: &mut impl FnMut(LinkEvent),
) {
    if dialect != Dialect::Resp2 {
        return;
    }
    loop {
        match expected.front() {
            Some(Expected::Farewell { .. }) => {}
            Some(Expected::Subscription { .. }) => {
                tell(LinkEvent::Replied(Reply::Refused(Refusal {
                    kind: RefusalKind::State,
                    text: "no messages without RESP3".to_owned(),
                })));
            }
            _ => return,
        }
        expected.pop_front();
    }
}

/// The pipeline without its decoder, which is busy.
struct Answers<'a> {
    expected: &'a mut VecDeque<Expected>,
    dialect: &'a mut Dialect,
    refusal: &'a mut Option<Refusal>,
    server: &'a mut String,
    voice: &'a mut Voice,
    secret: Option<&'a str>,
}

impl Answers<'_> {
    fn take(
        &mut self,
        value: Value,
        wire: &Wire,
        tell: &mut impl FnMut(LinkEvent),
    ) -> Result<(), Trouble> {
        let value = match value {
            Value::Push { kind, data } => {
                self.push(&kind, &data, wire, tell);
                return Ok(());
            }
            Value::Attribute { data, .. } => *data,
            value => value,
        };
        let first = std::mem::replace(self.voice, Voice::Heard) == Voice::Silent;
        if let Value::ServerError(error) = &value
            && first
            && preamble::turns_away(error)
        {
            self.turned_away(error, tell);
            return Ok(());
        }
        answer_the_unwritten(self.expected, *self.dialect, tell);
        match self.expected.pop_front().ok_or(Trouble::Garbage)? {
            Expected::Preamble(step) => self.preamble(step, &value, tell),
            Expected::Request => {
                let reply = wire.reply(&value, self.secret).ok_or(Trouble::Garbage)?;
                tell(LinkEvent::Replied(self.refusal.clone().map_or(reply, Reply::Refused)));
            }
            Expected::Subscription { .. } => {
                let Value::ServerError(error) = &value else { return Err(Trouble::Garbage) };
                let refusal = wire::refusal(error, self.secret);
                tell(LinkEvent::Replied(Reply::Refused(refusal)));
            }
            Expected::Farewell { .. } => {
                if !matches!(value, Value::ServerError(_)) {
                    return Err(Trouble::Garbage);
                }
            }
            Expected::Query => {
                let reply = wire::data(value, self.secret);
                tell(LinkEvent::Replied(self.refusal.clone().map_or(reply, Reply::Refused)));
            }
        }
        Ok(())
    }

    fn preamble(&mut self, step: Step, value: &Value, tell: &mut impl FnMut(LinkEvent)) {
        if let Value::ServerError(error) = value
            && self.refusal.is_none()
        {
            *self.refusal = preamble::judge(step, error, self.secret);
        }
        match step {
            Step::Hello => {
                let refused = matches!(value, Value::ServerError(_));
                *self.dialect = if refused { Dialect::Resp2 } else { Dialect::Resp3 };
            }
            Step::Server => *self.server = introduction::text(value).unwrap_or_default(),
            Step::Replication if self.refusal.is_none() => {
                let replication = introduction::text(value).unwrap_or_default();
                tell(LinkEvent::Introduced(introduction::read(self.server, &replication)));
                self.server.clear();
            }
            Step::Auth | Step::Select | Step::Name | Step::Replication => {}
        }
    }

    /// Confirmations are answers, messages are nobody's.
    fn push(
        &mut self,
        kind: &PushKind,
        data: &[Value],
        wire: &Wire,
        tell: &mut impl FnMut(LinkEvent),
    ) {
        let ((PushKind::Subscribe, Some(Expected::Subscription { missing }))
        | (PushKind::Unsubscribe, Some(Expected::Farewell { missing }))) =
            (kind, self.expected.front_mut())
        else {
            if let Some(event) = wire.message(kind, data) {
                tell(event);
            }
            return;
        };
        *missing -= 1;
        if *missing == 0
            && let Some(Expected::Subscription { .. }) = self.expected.pop_front()
        {
            tell(LinkEvent::Replied(Reply::Done));
        }
    }

    /// The node says so instead of reading anything, and hangs up.
    fn turned_away(&mut self, error: &ServerError, tell: &mut impl FnMut(LinkEvent)) {
        let refusal = wire::refusal(error, self.secret);
        for expected in self.expected.drain(..) {
            if matches!(
                expected,
                Expected::Request | Expected::Query | Expected::Subscription { .. }
            ) {
                tell(LinkEvent::Replied(Reply::Refused(refusal.clone())));
            }
        }
        *self.refusal = Some(refusal);
    }
}
