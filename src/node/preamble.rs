//! What every connection says before its first request, in the same write: who we are, which
//! protocol, which database. Its answers are judged here; requests behind it are never held back,
//! since that would cost a round trip.

use redis::ServerError;

use super::{
    endpoint::{Credentials, Endpoint},
    wire,
};
use crate::protocol::{Refusal, RefusalKind};

/// One command of the preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// AUTH. Refused: the node refuses us.
    Auth,
    /// HELLO 3. Refused: RESP2 on the same connection.
    Hello,
    /// SELECT. Refused: what follows lands in database 0, so the node refuses us.
    Select,
    /// INFO server and INFO replication: who it is. Denied: unknown. Any other error: the node
    /// refuses us.
    Server,
    /// The second half of that.
    Replication,
    /// CLIENT SETNAME, for those who look at the node. Refused: never mind.
    Name,
}

/// What the connection can do, as HELLO told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// It has not been told yet.
    Unknown,
    /// Messages and answers come on one connection.
    Resp3,
    /// Whoever subscribes can do nothing else any more.
    Resp2,
}

/// Appends the preamble for `endpoint` to `out` and returns what will be answered, in order.
pub fn pack(endpoint: &Endpoint, out: &mut Vec<u8>) -> Vec<Step> {
    let mut steps = Vec::with_capacity(6);
    if let Some(Credentials { username, password }) = endpoint.credentials() {
        let mut cmd = redis::cmd("AUTH");
        cmd.arg(username.as_deref()).arg(password);
        cmd.write_packed_command(out);
        steps.push(Step::Auth);
    }
    redis::cmd("HELLO").arg(3).write_packed_command(out);
    steps.push(Step::Hello);
    if endpoint.db() != 0 {
        redis::cmd("SELECT").arg(endpoint.db()).write_packed_command(out);
        steps.push(Step::Select);
    }
    let mut name = redis::cmd("CLIENT");
    name.arg("SETNAME").arg("redlock").write_packed_command(out);
    steps.push(Step::Name);
    for (section, step) in [("server", Step::Server), ("replication", Step::Replication)] {
        redis::cmd("INFO").arg(section).write_packed_command(out);
        steps.push(step);
    }
    steps
}

/// What an error as the answer to `step` means for everything behind it.
pub fn judge(step: Step, error: &ServerError, secret: Option<&str>) -> Option<Refusal> {
    match step {
        Step::Hello | Step::Name => None,
        Step::Server | Step::Replication if error.code() == "NOPERM" => None,
        Step::Select | Step::Server | Step::Replication => Some(wire::refusal(error, secret)),
        Step::Auth => {
            let mut refusal = wire::refusal(error, secret);
            let details = error.details().unwrap_or("");
            if error.code() == "ERR" && !details.starts_with("max number of clients") {
                // Such as "AUTH <password> called without any password configured": no waiting
                // mends it.
                refusal.kind = RefusalKind::Rights;
            }
            if details.starts_with("unknown command") {
                // A renamed AUTH: the node goes on to repeat what followed, cut anywhere.
                refusal.text = String::from("ERR unknown command 'AUTH'");
            }
            Some(refusal)
        }
    }
}

/// Whether a node says this instead of everything else before it hangs up: it has not read a byte.
pub fn turns_away(error: &ServerError) -> bool {
    let details = error.details().unwrap_or("");
    error.code() == "DENIED"
        || (error.code() == "ERR" && details.starts_with("max number of clients"))
}
