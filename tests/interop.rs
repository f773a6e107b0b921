//! Sharing a key with other Redlock clients: what they send, word by word, as their source has it
//! at the time of writing. What goes to the server is theirs; what is tested is ours.

use crate::harness::{
    Redlock, eventually, fleet,
    resp::Reply,
    servers::{Fleet, Inspect, InspectAll},
};

/// How a client takes a lock on one node and gives it back: both commands, and the answers that
/// mean success.
struct Client {
    name: &'static str,
    value: &'static str,
    take: &'static [&'static str],
    give: &'static [&'static str],
}

/// Compare-and-delete as the description of Redlock has it, in several spellings.
const DELETE: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return 0 end";

const CLIENTS: &[Client] = &[
    Client {
        name: "the documentation, redlock-py, redlock-rb, rslock",
        value: "my_random_value",
        take: &["SET", "k", "my_random_value", "NX", "PX", "30000"],
        give: &["EVAL", DELETE, "1", "k", "my_random_value"],
    },
    Client {
        name: "go-redsync: base64 of 16 random bytes, SET key value EX NX in any order",
        value: "3q2+7wAAAAAAAAAAAAAAAA==",
        take: &["set", "k", "3q2+7wAAAAAAAAAAAAAAAA==", "px", "30000", "nx"],
        give: &[
            "EVAL",
            "local val = redis.call(\"GET\", KEYS[1]) if val == ARGV[1] then return \
             redis.call(\"DEL\", KEYS[1]) elseif val == false then return -1 else return 0 end",
            "1",
            "k",
            "3q2+7wAAAAAAAAAAAAAAAA==",
        ],
    },
    Client {
        name: "node-redlock: EVAL with several keys, set only when all are absent",
        value: "c2a6d9e0f1b2c3d4e5f60718293a4b5c",
        take: &[
            "EVAL",
            "for i, key in ipairs(KEYS) do if redis.call(\"exists\", key) == 1 then return 0 end \
             end for i, key in ipairs(KEYS) do redis.call(\"set\", key, ARGV[1], \"PX\", ARGV[2]) \
             end return #KEYS",
            "1",
            "k",
            "c2a6d9e0f1b2c3d4e5f60718293a4b5c",
            "30000",
        ],
        give: &[
            "EVAL",
            "local count = 0 for i, key in ipairs(KEYS) do if redis.call(\"get\", key) == ARGV[1] \
             then redis.pcall(\"del\", key) count = count + 1 end end return count",
            "1",
            "k",
            "c2a6d9e0f1b2c3d4e5f60718293a4b5c",
        ],
    },
    Client {
        name: "RedLock.net, pottery: a UUID alone, which looks like a token of ours",
        value: "5f0c2b1e-3d4a-4b5c-8d6e-7f8091a2b3c4",
        take: &["SET", "k", "5f0c2b1e-3d4a-4b5c-8d6e-7f8091a2b3c4", "PX", "30000", "NX"],
        give: &["EVAL", DELETE, "1", "k", "5f0c2b1e-3d4a-4b5c-8d6e-7f8091a2b3c4"],
    },
    Client {
        name: "bsm/redislock: a token with metadata behind it",
        value: "kDpJvbNIuSmBWLnWwGXEcAmetadata",
        take: &["SET", "k", "kDpJvbNIuSmBWLnWwGXEcAmetadata", "PX", "30000", "NX"],
        give: &["EVAL", DELETE, "1", "k", "kDpJvbNIuSmBWLnWwGXEcAmetadata"],
    },
];

fn command(fleet: &Fleet, words: &[&str]) -> Vec<Reply> {
    fleet.servers().iter().map(|server| server.client().command(words)).collect()
}

fn run(fleet: &Fleet) -> Redlock {
    Redlock::run(fleet.nodes()).args(["-n", "-t", "3s"]).shell("echo ran")
}

#[test]
fn holders_of_other_clients_block_us_until_they_give_it_back() {
    let fleet = fleet(3);
    for Client { name, value, take, give } in CLIENTS {
        let taken = command(&fleet, take);
        let granted = |reply: &Reply| matches!(reply, Reply::Simple(_) | Reply::Integer(1));
        assert!(taken.iter().all(granted), "{name}: {taken:?}");
        run(&fleet).fails(75, "'k' is held by *").check();
        let other = "11111111-1111-4111-8111-111111111111";
        Redlock::new(["release", "-k", "k", "--token", other])
            .nodes(fleet.nodes())
            .fails(79, "*")
            .check();
        for server in fleet.servers() {
            assert_eq!(server.get("k").as_deref(), Some(*value), "{name}");
            assert!(server.client().pttl("k") > 15_000, "{name}: nobody shortens it");
        }
        let given = command(&fleet, give);
        assert!(given.iter().all(|reply| *reply == Reply::Integer(1)), "{name}: {given:?}");
        assert!(fleet.all_keys().is_empty(), "{name}");
        run(&fleet).stdout("ran\n").check();
        eventually("our lock is gone", || fleet.all_keys().is_empty());
    }
}

#[test]
fn our_lock_blocks_other_clients_and_their_release_does_not_touch_it() {
    let fleet = fleet(3);
    let out = Redlock::new(["acquire", "-k", "k", "-t", "1m"])
        .nodes(fleet.nodes())
        .stdout_like("*\n")
        .check();
    let value = fleet.servers()[0].get("k");
    for Client { name, take, give, .. } in CLIENTS {
        for reply in command(&fleet, take) {
            assert!(matches!(reply, Reply::Nil | Reply::Integer(0)), "{name}: {reply:?}");
        }
        for reply in command(&fleet, give) {
            assert!(matches!(reply, Reply::Integer(0)), "{name}: {reply:?}");
        }
        assert!(fleet.servers().iter().all(|server| server.get("k") == value), "{name}");
    }
    Redlock::new(["release", "-k", "k", "--token", out.stdout.trim()]).nodes(fleet.nodes()).check();
}

/// What is no string answers WRONGTYPE to compare-and-delete: somebody else's lock, no fault.
#[test]
fn hashes_and_sorted_sets_are_held() {
    let fleet = fleet(3);
    // Redisson's RLock (a count for each thread that re-enters), and Symfony's semaphore-like key.
    let redisson = "if (redis.call('exists', KEYS[1]) == 0) then redis.call('hincrby', KEYS[1], \
        ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return \
        redis.call('pttl', KEYS[1]);";
    let symfony = "redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]) redis.call('PEXPIRE', KEYS[1], \
        60000) return 1";
    for (script, kind) in [(redisson, "hash"), (symfony, "zset")] {
        command(&fleet, &["EVAL", script, "1", "k", "60000", "b6a1f0e2:1"]);
        run(&fleet).fails(75, &format!("'k' is held by a {kind} of another program (*)*")).check();
        let out = Redlock::new(["status", "k"]).nodes(fleet.nodes()).output().stdout;
        assert!(out.contains("held   3/3"), "{out}");
        assert!(out.contains(&format!("a {kind} of another program")), "{out}");
        assert_eq!(fleet.holding("k"), [0, 1, 2]);
        command(&fleet, &["DEL", "k"]);
    }
}

/// A lock of another client on a quorum and ours never stand beside each other.
#[test]
fn split_between_us_and_another_client_is_nobodys() {
    let fleet = fleet(5);
    let take = CLIENTS[0].take;
    for server in &fleet.servers()[..2] {
        server.client().command(take);
    }
    run(&fleet).stdout("ran\n").check();
    for server in &fleet.servers()[..3] {
        server.client().command(take);
    }
    run(&fleet).fails(75, "'k' is held by *").check();
    for server in fleet.servers() {
        server.client().command(CLIENTS[0].give);
    }
    eventually("nothing is left", || fleet.all_keys().is_empty());
}

/// Values that are no text, and look alike when they are shown: bytes are compared.
#[test]
fn values_that_are_no_text_are_compared_byte_by_byte() {
    let fleet = fleet(3);
    let put = |values: [&[u8]; 3]| {
        for (server, value) in fleet.servers().iter().zip(values) {
            let words: [&[u8]; 5] = [b"SET", b"k", value, b"PX", b"60000"];
            server.client().command(&words);
        }
    };
    let state = || {
        let out = Redlock::new(["status", "k", "--json"]).nodes(fleet.nodes()).output().stdout;
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        report["locks"][0]["state"].as_str().unwrap().to_owned()
    };
    put([b"\xff\0\n", b"\xfe\0\n", b"\xfd\0\n"]);
    assert_eq!(state(), "partial");
    run(&fleet).fails(75, "'k' is contended: *").check();
    put([b"\xff\0\n", b"\xff\0\n", b"\xfd\0\n"]);
    assert_eq!(state(), "held");
    run(&fleet).fails(75, "'k' is held by *").check();
    // What was shown is freed, and what only looks like it is not.
    let force = Redlock::new(["release", "-k", "k", "--force", "--yes"]).nodes(fleet.nodes());
    let outcome = force.output();
    assert!(outcome.stdout.is_empty(), "{outcome}");
    eventually("it is freed", || !fleet.servers()[0].exists("k"));
    assert!(!fleet.servers()[1].exists("k"), "{outcome}");
}
