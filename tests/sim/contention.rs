//! The tie-break under a rush: how many round trips pass until somebody holds the lock when many
//! start in the same instant (the table of docs/protocol.md, section 3). A few histories of each row run
//! in the suite with generous bounds; `REDLOCK_SIM_TABLE=1` plays them all and prints the table.

use std::{cell::Cell as Shared, env, time::Duration};

use redlock::{
    clock::Tick,
    protocol::{Action, ConnId, Contract, Event, LinkEvent, Machine, NodeIndex, Patience, Session},
};

use super::{
    brain::{Brain, Maker, session},
    clock::{MS, Real, SEC},
    histories::foreign,
    plan::{ActorPlan, Connect, Fault, Plan, Refusing, Until, What},
    rng::Rng,
    seeds::play,
};

const RTT: Real = 10 * MS;
const NODES: usize = 5;

/// What is the matter with the fleet.
#[derive(Clone, Copy, Debug)]
enum Matter {
    Nothing,
    Stopped(usize),
    Refusing(usize),
    /// Node 1 is twenty times as far away for half of the clients.
    Far,
    /// A dead client's value on the first node.
    Leftover,
    /// Connections take their round trip, as they do outside of the model.
    Connecting,
}

/// A row of the table.
struct Row {
    name: &'static str,
    matter: Matter,
    /// No history of the suite takes more round trips.
    bound: u64,
}

const ROWS: [Row; 8] = [
    Row { name: "all up", matter: Matter::Nothing, bound: 15 },
    Row { name: "all up, with connecting", matter: Matter::Connecting, bound: 25 },
    Row { name: "node 1 stopped", matter: Matter::Stopped(1), bound: 25 },
    Row { name: "nodes 1 and 2 stopped", matter: Matter::Stopped(2), bound: 30 },
    Row { name: "node 1 refuses", matter: Matter::Refusing(1), bound: 25 },
    Row { name: "nodes 1 and 2 refuse", matter: Matter::Refusing(2), bound: 25 },
    Row { name: "node 1 slow for half", matter: Matter::Far, bound: 40 },
    Row { name: "leftover on node 1", matter: Matter::Leftover, bound: 50 },
];

fn rush(clients: usize, matter: Matter, rng: &mut Rng) -> Plan {
    let mut plan = Plan::calm(NODES);
    plan.net.rtt = RTT;
    plan.net.connect = Connect::Free;
    plan.until = Until::SomebodyHolds;
    plan.limit = 60 * SEC;
    for client in 0..clients {
        let mut actor = ActorPlan::new(NODES, Duration::from_secs(30));
        actor.patience = Patience::NoWait;
        actor.start = rng.below(RTT / 1000);
        if matches!(matter, Matter::Far) && client % 2 == 1 {
            actor.slow = 20;
        }
        plan.actors.push(actor);
    }
    let mut fault = |nodes: usize, what| {
        let faults = (0..nodes).map(|node| Fault { node, at: 0, until: 61 * SEC, what });
        plan.faults.extend(faults);
    };
    match matter {
        Matter::Nothing | Matter::Far => {}
        Matter::Stopped(nodes) => fault(nodes, What::Stopped),
        Matter::Refusing(nodes) => fault(nodes, What::Refusing(Refusing::Everything)),
        Matter::Leftover => foreign(&mut plan, 0..1, Some(Duration::from_secs(25))),
        Matter::Connecting => plan.net.connect = Connect::RoundTrip,
    }
    plan
}

/// One cell: the times in hundredths of round trips, in order, how many histories had no holder,
/// and the requests of one client in the middle history.
struct Cell {
    times: Vec<u64>,
    none: usize,
    requests: usize,
}

fn cell(clients: usize, matter: Matter, seeds: u64) -> Cell {
    cell_of(clients, matter, seeds, &session)
}

fn cell_of(clients: usize, matter: Matter, seeds: u64, maker: &Maker) -> Cell {
    let mut cell = Cell { times: Vec::new(), none: 0, requests: 0 };
    let mut requests = Vec::new();
    for seed in 0..seeds {
        match play(seed, &|rng: &mut Rng| rush(clients, matter, rng), maker) {
            Ok(report) => {
                let sent: usize = report.outcomes.iter().map(|o| o.requests).sum();
                requests.push(sent / clients);
                match report.first {
                    Some(first) => cell.times.push(first * 100 / RTT),
                    None => cell.none += 1,
                }
            }
            Err(violation) => panic!("{violation:?} in seed {seed} of {matter:?}, {clients}"),
        }
    }
    cell.times.sort_unstable();
    requests.sort_unstable();
    cell.requests = requests.get(requests.len() / 2).copied().unwrap_or(0);
    cell
}

fn show(cell: &Cell) -> String {
    let at = |place: usize| {
        let hundredths = cell.times.get(place).copied().unwrap_or(0);
        format!("{}.{}", hundredths / 100, hundredths / 10 % 10)
    };
    let (median, worst) = (at(cell.times.len() / 2), at(cell.times.len().saturating_sub(1)));
    format!("{median} / {worst} ({}; none {})", cell.requests, cell.none)
}

/// Every row, every column: median / worst (requests per client; histories without a holder).
#[test]
fn rush_of_simultaneous_starters_has_a_holder_within_a_few_round_trips() {
    let whole = env::var_os("REDLOCK_SIM_TABLE").is_some();
    let columns: [(usize, u64, u64); 4] = [(1, 200, 5), (5, 200, 10), (50, 200, 3), (200, 40, 1)];
    for row in &ROWS {
        let mut cells = Vec::new();
        for (clients, all, few) in columns {
            let cell = cell(clients, row.matter, if whole { all } else { few });
            let worst = cell.times.last().copied().unwrap_or(0);
            if !whole {
                assert_eq!(cell.none, 0, "{}: nobody of {clients} got the lock", row.name);
                let late = worst > row.bound * 100;
                assert!(!late, "{}, {clients} clients: {worst} hundredths", row.name);
            }
            cells.push(format!("{clients}: {}", show(&cell)));
        }
        if whole {
            println!("{:24} | {}", row.name, cells.join(" | "));
        }
    }
}

/// A session for which the canonical order of the nodes begins at another node than for others: so
/// each breaks ties in its own way.
struct OwnOrder {
    inner: Box<Brain>,
    turn: u8,
}

impl OwnOrder {
    fn turned(conn: ConnId, by: usize) -> ConnId {
        let node = (conn.node.get() + by) % NODES;
        ConnId { node: NodeIndex(u8::try_from(node).unwrap()), ..conn }
    }

    fn out(&self, conn: ConnId) -> ConnId {
        Self::turned(conn, usize::from(self.turn))
    }
}

impl Machine for OwnOrder {
    type Event = Event;

    fn is_last(event: &Event) -> bool {
        Session::is_last(event)
    }

    fn start(&mut self, now: Tick) {
        self.inner.start(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        self.inner.handle(Self::turned(conn, NODES - usize::from(self.turn)), event, now);
    }

    fn wake(&mut self, now: Tick) {
        self.inner.wake(now);
    }

    fn stop(&mut self, now: Tick) {
        self.inner.stop(now);
    }

    fn deadline(&self) -> Option<Tick> {
        self.inner.deadline()
    }

    fn actions(&mut self) -> Vec<Action> {
        let actions = self.inner.actions().into_iter();
        let turned = actions.map(|action| match action {
            Action::Open(conn) => Action::Open(self.out(conn)),
            Action::Send(conn, request) => Action::Send(self.out(conn), request),
            Action::Close(conn) => Action::Close(self.out(conn)),
            tell @ Action::Tell(_) => tell,
        });
        turned.collect()
    }
}

#[test]
fn rush_without_a_common_tie_break_is_seen() {
    const CLIENTS: usize = 50;
    const SEEDS: u64 = 4;
    let turn = Shared::new(0_u8);
    let maker = move |contract: Contract| -> Box<Brain> {
        turn.set((turn.get() + 1) % u8::try_from(NODES).unwrap());
        Box::new(OwnOrder { inner: session(contract), turn: turn.get() })
    };
    let broken = cell_of(CLIENTS, Matter::Nothing, SEEDS, &maker);
    let sound = cell(CLIENTS, Matter::Nothing, SEEDS);
    let worst = |cell: &Cell| cell.times.last().copied().unwrap_or(u64::MAX);
    assert_eq!(sound.none, 0);
    assert!(
        broken.none > 0 || worst(&broken) > 2 * worst(&sound),
        "sound {}, broken {}",
        show(&sound),
        show(&broken)
    );
}
