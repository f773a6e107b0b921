//! `--slots N`: at most N at once, on real nodes.

use std::{fs, path::Path, time::Duration};

use rustix::process::Signal;

use crate::harness::{
    Redlock,
    builder::{End, Running},
    eventually, fleet, scratch,
    servers::{Fleet, Inspect, InspectAll},
};

fn run(fleet: &Fleet, slots: &str) -> Redlock {
    Redlock::new(["run", "-k", "s", "--slots", slots]).nodes(fleet.nodes())
}

/// A run that holds a slot until it gets TERM, and which.
fn holder(fleet: &Fleet, slots: &str) -> (Running, usize) {
    let mut run = run(fleet, slots)
        .shell("echo slot=$REDLOCK_SLOT.; exec sleep 60")
        .stdout_like("slot=*\n")
        .dies_of(Signal::TERM)
        .start();
    run.wait_stdout(".");
    let slot = run.stdout().trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    (run, slot)
}

fn end(run: Running) {
    run.signal(Signal::TERM);
    run.check();
}

/// A line for a shell that notes in `$D` how many are inside, itself among them.
const COUNT: &str = "mkdir \"$D/slot$REDLOCK_SLOT\" || exit 9; ls \"$D\" | grep -c slot >\"$D/n$$\"; \
                     sleep 0.05; rmdir \"$D/slot$REDLOCK_SLOT\"";

fn noted(place: &Path) -> Vec<usize> {
    let files = fs::read_dir(place).unwrap();
    files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap().trim().parse().unwrap())
        .collect()
}

#[test]
fn ten_runs_share_three_slots_at_most_three_at_once_and_all_run() {
    let fleet = fleet(5);
    let place = scratch();
    let runs: Vec<Running> = (0..10)
        .map(|_| {
            let run = run(&fleet, "3").args(["-q"]).env("D", place.path());
            run.shell(COUNT).within(Duration::from_secs(60)).start()
        })
        .collect();
    for run in runs {
        run.check();
    }
    let noted = noted(place.path());
    assert_eq!(noted.len(), 10);
    // Else they were one after the other, and nothing was tested.
    assert!(noted.iter().max() <= Some(&3) && noted.iter().max() >= Some(&2), "{noted:?}");
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn of_many_that_start_at_once_with_no_wait_exactly_as_many_run_as_there_are_slots() {
    let fleet = fleet(5);
    let mut runs: Vec<Running> = (0..12)
        .map(|_| {
            let run = run(&fleet, "3").args(["-n"]).shell("echo ran; exec sleep 60");
            run.within(Duration::from_secs(60)).start()
        })
        .collect();
    let mut busy = 0;
    eventually("all but three have their verdict", || {
        busy = runs.iter_mut().filter_map(Running::ended).count();
        busy == 9
    });
    for mut run in runs {
        if run.ended().is_none() {
            run.wait_stdout("ran");
            run.signal(Signal::TERM);
            run.output();
            continue;
        }
        let outcome = run.output();
        assert_eq!(outcome.end, End::Exit(75), "{outcome}");
        assert!(outcome.stderr.contains("all 3 slots of 's' are held, by "), "{outcome}");
    }
    assert_eq!(busy, 9);
}

#[test]
fn slots_are_plain_locks_with_numbers_and_the_command_knows_its_own() {
    let fleet = fleet(3);
    let (first, one) = holder(&fleet, "2");
    let (second, two) = holder(&fleet, "2");
    assert_eq!(one + two, 3);
    let key = |slot: usize| if slot == 1 { "s".to_owned() } else { format!("s#{slot}") };
    eventually("both are everywhere", || fleet.all_keys().len() == 6);
    for slot in [1, 2] {
        assert_eq!(fleet.holding(&key(slot)), [0, 1, 2]);
    }
    // The plain lock is the first slot, for whoever takes that.
    Redlock::new(["run", "-n", "-k", "s", "true"])
        .nodes(fleet.nodes())
        .fails(75, "'s' is held by *")
        .check();
    run(&fleet, "2").args(["--skip"]).shell("true").check();
    run(&fleet, "2")
        .args(["-n"])
        .shell("true")
        .fails(75, "all 2 slots of 's' are held, by * pid * (*; alive: *), * pid *; to wait *")
        .check();
    // A third slot is free.
    run(&fleet, "3")
        .args(["-n"])
        .shell("echo $REDLOCK_SLOT $REDLOCK_KEY")
        .stdout("3 s#3\n")
        .check();
    end(first);
    run(&fleet, "2")
        .args(["-n"])
        .shell("echo $REDLOCK_SLOT $REDLOCK_KEY; \"$R\" extend >/dev/null")
        .env("R", env!("CARGO_BIN_EXE_redlock"))
        .stdout(format!("{one} {}\n", key(one)))
        .check();
    end(second);
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn waiter_takes_whichever_slot_is_given_back_first() {
    let fleet = fleet(5);
    let (first, _) = holder(&fleet, "2");
    let (second, two) = holder(&fleet, "2");
    let mut waiter = run(&fleet, "2")
        .shell("echo $REDLOCK_SLOT")
        .stdout(format!("{two}\n"))
        .stderr_like("redlock: waiting for 's': all 2 slots are held, by *, waiting without limit *\nredlock: got 's*' after *\n")
        .start();
    waiter.wait_stderr("waiting");
    end(second);
    waiter.check();
    end(first);
}

#[test]
fn each_slot_has_its_own_fencing_tokens_and_its_own_min_hold() {
    let fleet = fleet(3);
    let run = |options: &[&str]| {
        let run = run(&fleet, "2").args(["-n"]).args(options);
        run.shell("echo $REDLOCK_SLOT $REDLOCK_FENCING_TOKEN").stdout_like("*\n").check().stdout
    };
    let first = run(&["--fence", "--min-hold", "1m"]);
    let second = run(&["--fence", "--min-hold", "1m"]);
    let slot = |text: &str| text.split(' ').next().unwrap().to_owned();
    assert_ne!(slot(&first), slot(&second));
    for key in ["s", "s#2", "redlock:fence:s", "redlock:fence:s#2"] {
        assert_eq!(fleet.holding(key), [0, 1, 2], "{key}");
    }
    self::run(&fleet, "2")
        .args(["-n"])
        .shell("true")
        .fails(75, "all 2 slots of 's' are held*")
        .check();
}

#[test]
fn release_by_force_frees_one_slot_and_ends_its_holder_alone() {
    let fleet = fleet(3);
    let mut holders = [1, 2].map(|_| {
        let mut run = run(&fleet, "2").args(["-t", "1h"]).shell("echo $REDLOCK_KEY; exec sleep 60");
        run = run.stdout_like("s*\n").exits(79).stderr_like(
            "redlock: lost 's#2': *\nredlock: exit 79: 's#2' was lost while the command ran\n",
        );
        let mut run = run.start();
        run.wait_stdout("s");
        run
    });
    eventually("both listen", || {
        fleet.servers().iter().all(|server| {
            let words = ["PUBSUB", "NUMSUB", "redlock:holder:s", "redlock:holder:s#2"];
            format!("{:?}", server.client().command(&words)).matches("Integer(2)").count() == 2
        })
    });
    Redlock::new(["release", "-k", "s#2", "--force", "--yes"])
        .nodes(fleet.nodes())
        .stderr_like("redlock: 's#2' is held by *\nredlock: released 's#2' on 3 of 3 nodes\n")
        .check();
    eventually("its holder ends", || holders.iter_mut().any(|run| run.ended().is_some()));
    for mut run in holders {
        if run.ended().is_some() {
            run.check();
        } else {
            run.signal(Signal::TERM);
            assert_eq!(run.output().stdout, "s\n");
        }
    }
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn slots_need_one_key_and_a_sensible_number() {
    let fleet = fleet(1);
    let token = "00000000-0000-4000-8000-000000000001";
    for (options, said) in [
        (&["-k", "t", "--slots", "2"][..], "--slots takes one --key*"),
        (&["--slots", "0"], "*--slots*"),
        (&["--slots", "65"], "*--slots*"),
        (&["--slots", "2", "--token", token], "*--token*"),
        (&["--slots", "2", "--reentrant"], "*--reentrant*"),
    ] {
        let line = Redlock::run(fleet.nodes()).args(options).shell("true");
        line.fails(64, said).check();
    }
    let long = "x".repeat(511);
    Redlock::new(["run", "-k", &long, "--slots", "2", "true"])
        .nodes(fleet.nodes())
        .fails(64, "--key: a key has at most 512 bytes, this one has 513")
        .check();
}

#[test]
fn slot_of_a_semaphore_in_another_of_the_same_is_refused_when_all_are_ours() {
    let fleet = fleet(3);
    let inner = "$R run -k s --slots 2 -- $R run -k s --slots 2 -n true";
    run(&fleet, "2")
        .env("R", env!("CARGO_BIN_EXE_redlock"))
        .shell(inner)
        .fails(78, "all 2 slots of 's' are held by the very run that this is part of, *")
        .check();
    run(&fleet, "3")
        .env("R", env!("CARGO_BIN_EXE_redlock"))
        .shell(&inner.replace('2', "3"))
        .check();
}

#[test]
fn dead_and_silent_nodes_of_a_minority_hinder_no_semaphore() {
    let fleet = fleet(5);
    fleet.servers()[0].stop().unwrap();
    fleet.servers()[1].set("s", "leftover");
    fleet.servers()[1].set("s#2", "leftover");
    let (first, _) = holder(&fleet, "2");
    let (second, _) = holder(&fleet, "2");
    run(&fleet, "2").args(["-n"]).shell("true").fails(75, "all 2 slots of 's' are held*").check();
    end(first);
    end(second);
    fleet.servers()[0].cont().unwrap();
}
