//! The files of TLS: what is wrong with them is said before anything is contacted.

use std::{fs, path::PathBuf};

use crate::harness::{Redlock, fleet, tls::Authority};

/// Nobody is there: whatever is wrong with the files comes first.
const NODE: &str = "rediss://127.0.0.1:1";

#[track_caller]
fn wrong(words: &[&str], reason: &str) {
    Redlock::run(NODE).args(words).command(["true"]).fails(78, reason).check();
}

#[test]
fn files_that_cannot_serve_are_named_with_what_is_wrong() {
    let authority = Authority::new();
    let (ours, other) = (authority.issue(&[]), authority.issue(&[]));
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let ca = text(&authority.ca());
    let (cert, key, other_key) = (text(&ours.cert), text(&ours.key), text(&other.key));
    let make = |name: &str, contents: &str| {
        let path = authority.place().join(name);
        fs::write(&path, contents).unwrap();
        text(&path)
    };
    let empty = make("empty", "");
    let broken = make("broken", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let sealed = make("sealed", sealed);
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let old = make("old", old);

    wrong(
        &["--tls-ca", "/nonexistent/ca"],
        "--tls-ca: cannot read /nonexistent/ca: no such file or directory",
    );
    wrong(&["--tls-ca", &empty], "--tls-ca: */empty: there is no certificate in it (PEM, *)");
    wrong(&["--tls-ca", &key], "--tls-ca: *: there is no certificate in it (PEM, *)");
    wrong(&["--tls-ca", &broken], "--tls-ca: */broken: a certificate in it cannot be used: *");
    let ca = ["--tls-ca", &ca];
    let with = |words: &[&str]| -> Vec<String> {
        ca.iter().chain(words).map(|word| (*word).to_owned()).collect()
    };
    let wrong = |words: &[&str], reason: &str| {
        let words = with(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        wrong(&words, reason);
    };
    wrong(&["--tls-cert", &cert], "--tls-cert needs --tls-key FILE as well");
    wrong(&["--tls-key", &key], "--tls-key needs --tls-cert FILE as well");
    let pair = |cert: &str, key: &str, reason: &str| {
        wrong(&["--tls-cert", cert, "--tls-key", key], reason);
    };
    pair(&empty, &key, "--tls-cert: */empty: there is no certificate in it (PEM, *)");
    pair(&broken, &key, "--tls-cert: */broken: a certificate in it cannot be used: *");
    pair(&cert, &cert, "--tls-key: *: there is no private key in it (PEM, unencrypted)");
    pair(&cert, &other_key, "--tls-key: *: the key belongs to another certificate");
    pair(&cert, &sealed, "--tls-key: */sealed: the key is encrypted, *openssl pkey*");
    pair(&cert, &old, "--tls-key: */old: the key is encrypted, *openssl pkey*");
    wrong(&["--tls-server-name", "a b"], "--tls-server-name: that is no host name or address");
    let none = Redlock::run(NODE).env("SSL_CERT_FILE", "/nonexistent").command(["true"]);
    none.fails(78, "this system has no trusted CA certificates: *--tls-ca FILE").check();
}

#[test]
fn plain_list_reads_none_of_the_files() {
    let fleet = fleet(1);
    Redlock::run(fleet.nodes())
        .args(["--tls-ca", "/nonexistent/ca", "--tls-cert", "/nonexistent/cert"])
        .env("SSL_CERT_FILE", "/nonexistent")
        .command(["true"])
        .check();
}

#[test]
fn empty_variables_are_as_none() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    let names =
        ["REDLOCK_TLS_CA", "REDLOCK_TLS_CERT", "REDLOCK_TLS_KEY", "REDLOCK_TLS_SERVER_NAME"];
    let run = Redlock::run(server.url()).env("SSL_CERT_FILE", authority.ca());
    names.iter().fold(run, |run, name| run.env(name, "")).command(["true"]).check();
}

#[test]
fn command_finds_the_same_files_wherever_it_goes() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["db.example"]), &[]);
    let ours = authority.issue(&[]);
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let place = authority.place().to_str().unwrap();
    let (cert, key) = (name(&ours.cert), name(&ours.key));
    let inner = format!(
        "cd / && env | grep ^REDLOCK_TLS_ | sort && {} status",
        env!("CARGO_BIN_EXE_redlock")
    );
    let run = Redlock::run(server.url())
        .args(["--tls-ca", "ca.pem", "--tls-cert", &cert, "--tls-key", &key])
        .args(["--tls-server-name", "db.example"])
        .shell(&inner)
        .start_as(&mut |command| {
            command.current_dir(place);
        })
        .output();
    let expected = format!(
        "REDLOCK_TLS_CA={place}/ca.pem\nREDLOCK_TLS_CERT={place}/{cert}\n\
         REDLOCK_TLS_KEY={place}/{key}\nREDLOCK_TLS_SERVER_NAME=db.example\n"
    );
    assert!(run.stdout.starts_with(&expected), "{run}");
    assert!(run.stdout.contains("rediss://127.0.0.1") && run.stderr.is_empty(), "{run}");
}

#[test]
fn configuration_file_names_the_files_beside_it_and_comes_last() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["db.example"]), &[]);
    let config = authority.place().join("config.toml");
    let with = |text: &str| {
        fs::write(&config, format!("nodes = '{}'\n{text}", server.url())).unwrap();
        // The directory is anywhere else.
        Redlock::new(["run", "-k", "k", "-n"])
            .env("REDLOCK_CONFIG", &config)
            .env("REDLOCK_RESTART_GUARD", "off")
    };
    let good = "tls-ca = 'ca.pem'\ntls-server-name = 'db.example'\n";
    with(good).command(["echo", "ran"]).stdout("ran\n").check();
    // The command finds them as well.
    let inner = "cd / && echo $REDLOCK_TLS_CA $REDLOCK_TLS_SERVER_NAME";
    let told = format!("{} db.example\n", authority.ca().display());
    with(good).shell(inner).stdout(told).check();
    // Options and the environment come first.
    let other = Authority::new();
    with(good).trusting(&other.ca()).command(["true"]).fails(69, "*not trusted here*").check();
    let bad = "tls-ca = 'none.pem'\ntls-server-name = 'x'\n";
    let run = with(bad).trusting(&authority.ca()).args(["--tls-server-name", "db.example"]);
    run.command(["true"]).check();
    let place = authority.place().display();
    let reason = format!("{place}/config.toml:2: tls-ca: cannot read {place}/none.pem: no such *");
    with(bad).command(["true"]).fails(78, &reason).check();
    let run = Redlock::run(server.url()).env("REDLOCK_TLS_CA", "/nonexistent").command(["true"]);
    run.fails(78, "REDLOCK_TLS_CA: cannot read /nonexistent: *").check();
}

#[test]
fn key_that_everybody_can_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    let ours = authority.issue(&[]);
    let words = [("--tls-cert", &ours.cert), ("--tls-key", &ours.key)];
    let words = words.map(|(word, path)| [word.to_owned(), path.display().to_string()]).concat();
    let run = || Redlock::run(server.url()).trusting(&authority.ca()).args(&words);
    let mode = |mode| fs::set_permissions(&ours.key, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    // Cron is not told, whoever looks is.
    run().command(["true"]).check();
    let out = run().args(["-v"]).command(["true"]).output().stderr;
    assert!(out.contains("can read the key") && out.contains("chmod o-r"), "{out}");
    mode(0o640);
    let out = run().args(["-v"]).command(["true"]).output().stderr;
    assert!(!out.contains("chmod"), "{out}");
}
