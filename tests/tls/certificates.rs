//! Whom we trust, and who trusts us.

use rcgen::{BasicConstraints, IsCa, date_time_ymd};

use super::{refused, works};
use crate::harness::{
    Redlock,
    tls::{Authority, DAY, TlsServer},
};

#[test]
fn own_ca_and_the_systems_are_trusted_and_nobody_else() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    works(server.url(), |run| run.trusting(&authority.ca()));
    works(server.url(), |run| run.args(["--tls-ca", authority.ca().to_str().unwrap()]));
    // The system's, as OpenSSL finds them.
    works(server.url(), |run| run.env("SSL_CERT_FILE", authority.ca()));
    let other = Authority::new();
    let unknown =
        "*: its certificate comes from a CA that is not trusted here; to mend it: * --tls-ca FILE*";
    refused(server.url(), |run| run.trusting(&other.ca()), unknown);
    // Whoever names a CA means no other.
    refused(
        server.url(),
        |run| run.trusting(&other.ca()).env("SSL_CERT_FILE", authority.ca()),
        unknown,
    );
    // A CA that was made anew has the name of the old one.
    let (old, new) = (Authority::named("CA"), Authority::named("CA"));
    let server = new.server(&new.issue(&["127.0.0.1"]), &[]);
    refused(server.url(), |run| run.trusting(&old.ca()), unknown);
}

#[test]
fn certificate_for_another_name_is_refused_until_that_name_is_said() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["db.example", "10.0.0.1"]), &[]);
    let trusting = |run: Redlock| run.trusting(&authority.ca());
    refused(
        server.url(),
        trusting,
        "*: its certificate is for db.example, 10.0.0.1, not for '127.0.0.1'; *--tls-server-name*",
    );
    works(server.url(), |run| trusting(run).args(["--tls-server-name", "db.example"]));
    works(server.url(), |run| trusting(run).env("REDLOCK_TLS_SERVER_NAME", "10.0.0.1"));
    refused(
        server.url(),
        |run| trusting(run).args(["--tls-server-name", "x.example"]),
        "*, not for 'x.example'*",
    );
    // A name in the list is the name in the certificate.
    let named = authority.server(&authority.issue(&["localhost"]), &[]);
    works(format!("rediss://localhost:{}", named.port()), trusting);
    // A common name is no name.
    let nameless = authority.server(&authority.issue(&[]), &[]);
    refused(nameless.url(), trusting, "*no subjectAltName*");
}

#[test]
fn certificate_out_of_its_time_is_refused_with_the_time() {
    needs_tls!();
    let authority = Authority::new();
    let trusting = |run: Redlock| run.trusting(&authority.ca());
    let expired = authority.issue_as(&["127.0.0.1"], |params| {
        params.not_after = date_time_ymd(2023, 11, 14);
    });
    refused(
        authority.server(&expired, &[]).url(),
        trusting,
        "*: its certificate expired 2023-11-14T00:00:00Z; to mend it: renew *",
    );
    let future = authority.issue_as(&["127.0.0.1"], |params| {
        params.not_before = date_time_ymd(2200, 1, 2);
        params.not_after = date_time_ymd(2300, 1, 2);
    });
    refused(
        authority.server(&future, &[]).url(),
        trusting,
        "*: its certificate is not valid before 2200-01-02T00:00:00Z; * clock *",
    );
    works(authority.server(&authority.issue_until(&["127.0.0.1"], DAY), &[]).url(), trusting);
}

#[test]
fn certificate_of_a_ca_is_no_servers() {
    needs_tls!();
    let authority = Authority::new();
    let own = authority.issue_as(&["127.0.0.1"], |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let server = authority.server(&own, &[]);
    let why = "*: its certificate is a CA's own, which cannot be a server's; *";
    refused(server.url(), |run| run.trusting(&authority.ca()), why);
}

#[test]
fn node_that_asks_who_we_are_gets_our_certificate() {
    needs_tls!();
    let (authority, other) = (Authority::new(), Authority::new());
    for version in ["TLSv1.3", "TLSv1.2"] {
        let issued = authority.issue(&["127.0.0.1"]);
        let options = ["--tls-auth-clients", "yes", "--tls-protocols", version];
        let server = TlsServer::start(&authority.ca(), &issued, &options);
        let client = authority.issue(&[]);
        let foreign = other.issue(&[]);
        let expired = authority.issue_as(&[], |p| p.not_after = date_time_ymd(2023, 11, 14));
        let showing = |issued: &crate::harness::tls::Issued| {
            let words = [("--tls-cert", &issued.cert), ("--tls-key", &issued.key)];
            let words = words.map(|(word, path)| [word.to_owned(), path.display().to_string()]);
            let ca = authority.ca();
            move |run: Redlock| run.trusting(&ca).args(words.concat())
        };
        works(server.url(), showing(&client));
        let wanted = "*: wants a certificate of ours; * --tls-cert FILE --tls-key FILE";
        // TLS 1.2 has one word for all of it.
        let failed = "*: TLS failed: it said: handshake failure; * --tls-cert, --tls-key";
        let why = if version == "TLSv1.3" { wanted } else { failed };
        refused(server.url(), |run| run.trusting(&authority.ca()), why);
        let refusal = "*: does not accept our certificate: *--tls-cert FILE --tls-key FILE";
        refused(server.url(), showing(&foreign), refusal);
        refused(server.url(), showing(&expired), refusal);
    }
}

#[test]
fn insecure_takes_everybody_and_says_so_every_time() {
    needs_tls!();
    let authority = Authority::new();
    let bad = authority.issue_as(&["db.example"], |p| p.not_after = date_time_ymd(2023, 11, 14));
    let server = authority.server(&bad, &[]);
    let warning = "redlock: warning: --tls-insecure: the nodes' certificates are not checked; *\n";
    let run = || Redlock::run(server.url()).args(["--tls-insecure"]);
    run().command(["true"]).stderr_like(warning).check();
    run().args(["-q"]).command(["true"]).stderr_like(warning).check();
    let json = "{*\"event\":\"warning\"*--tls-insecure: *}\n";
    run().args(["--log-format", "json"]).command(["true"]).stderr_like(json).check();
    let status = Redlock::new(["status", "--tls-insecure"]).nodes(server.url()).output();
    assert!(status.stderr.starts_with("redlock: warning: --tls-insecure: "), "{status}");
    // Where there is no TLS there is nothing to warn of.
    let plain = server.server.url();
    Redlock::run(plain).args(["--tls-insecure"]).command(["true"]).check();
}

/// goauthentik/authentik#9121: a certificate error showed the whole URL.
#[test]
fn no_error_about_a_certificate_shows_the_nodes_password() {
    needs_tls!();
    let (authority, other) = (Authority::new(), Authority::new());
    let server = authority.server(&authority.issue(&["db.example"]), &[]);
    let url = server.url().replace("rediss://", "rediss://user:s3cret-marker@");
    for (ca, code) in [(other.ca(), 69), (authority.ca(), 69), ("/nonexistent".into(), 78)] {
        let run: &[&str] = &["run", "-vv", "-n", "-k", "k", "--", "true"];
        for words in [run, &["status"], &["status", "--json"], &["doctor"], &["doctor", "--json"]] {
            let out = Redlock::new(words).nodes(&url).trusting(&ca).output();
            assert_eq!(out.end, crate::harness::builder::End::Exit(code), "{words:?}\n{out}");
            let all = format!("{}{}", out.stdout, out.stderr);
            assert!(all.contains("certificate") || code == 78, "{words:?}\n{out}");
            assert!(!all.contains("s3cret-marker"), "{words:?}\n{out}");
        }
    }
}
