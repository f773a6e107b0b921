//! TLS troubles in words, and what would mend them.

use std::time::{Duration, UNIX_EPOCH};

use super::mend::Remedy;
use crate::protocol::TlsTrouble;

/// What is wrong.
pub fn words(trouble: &TlsTrouble) -> String {
    match trouble {
        TlsTrouble::Unanswered => {
            "connected, but no answer to the TLS handshake in time".to_owned()
        }
        TlsTrouble::HungUp => "closed the connection during the TLS handshake".to_owned(),
        TlsTrouble::Plain => "does not speak TLS".to_owned(),
        TlsTrouble::WrongName { wanted, carries } if carries.is_empty() => {
            format!("its certificate names no host (no subjectAltName), and so not '{wanted}'")
        }
        TlsTrouble::WrongName { wanted, carries } => {
            // There can be hundreds.
            let some: Vec<&str> = carries.iter().take(3).map(String::as_str).collect();
            let more = if carries.len() > some.len() { ", ..." } else { "" };
            format!("its certificate is for {}{more}, not for '{wanted}'", some.join(", "))
        }
        TlsTrouble::Expired(seconds) => format!("its certificate expired {}", date(*seconds)),
        TlsTrouble::NotYetValid(seconds) => {
            format!("its certificate is not valid before {}", date(*seconds))
        }
        TlsTrouble::UnknownAuthority => {
            "its certificate comes from a CA that is not trusted here".to_owned()
        }
        TlsTrouble::Authority => {
            "its certificate is a CA's own, which cannot be a server's".to_owned()
        }
        TlsTrouble::Unusable(why) => format!("its certificate cannot be used: {why}"),
        TlsTrouble::CertificateWanted => "wants a certificate of ours".to_owned(),
        TlsTrouble::CertificateRefused(why) => format!("does not accept our certificate: {why}"),
        TlsTrouble::Incompatible(why) => {
            format!("speaks no TLS version or cipher that we speak: {why}")
        }
        TlsTrouble::Broken(why) => format!("TLS failed: {why}"),
    }
}

/// What would mend it.
pub fn remedy(trouble: &TlsTrouble) -> Remedy {
    let (check, mend) = match trouble {
        TlsTrouble::Unanswered => (
            "tls-silent",
            "is that a plain port? then write redis://; else is the server stopped or overloaded?",
        ),
        TlsTrouble::HungUp => {
            ("tls-cut", "is that a plain port? then write redis://; else the node's log says why")
        }
        TlsTrouble::Plain => {
            ("no-tls", "write redis:// in the list, or switch TLS on there (tls-port)")
        }
        TlsTrouble::WrongName { .. } => (
            "tls-name",
            "list the node by a name of its certificate, or say which one it carries: \
             --tls-server-name NAME",
        ),
        TlsTrouble::Expired(_) => {
            ("tls-expired", "renew the node's certificate (or set this machine's clock right)")
        }
        TlsTrouble::NotYetValid(_) => {
            ("tls-not-yet-valid", "set this machine's clock right, or issue the certificate anew")
        }
        TlsTrouble::UnknownAuthority => (
            "tls-authority",
            "name the certificate of its CA: --tls-ca FILE; if that is the one, have the node send \
             the certificates in between as well",
        ),
        TlsTrouble::Authority => {
            ("tls-certificate", "have that CA issue a certificate for the server")
        }
        TlsTrouble::Unusable(_) => (
            "tls-certificate",
            "issue it anew: X.509 version 3, with a subjectAltName, for server authentication",
        ),
        TlsTrouble::CertificateWanted => (
            "tls-client-certificate",
            "give one that its CA has issued: --tls-cert FILE --tls-key FILE",
        ),
        TlsTrouble::CertificateRefused(_) => (
            "tls-client-certificate",
            "give one that its CA has issued and that has not ended: --tls-cert FILE --tls-key FILE",
        ),
        TlsTrouble::Incompatible(_) => {
            ("tls-version", "allow TLS 1.2 or 1.3 there (tls-protocols, tls-ciphers)")
        }
        TlsTrouble::Broken(_) => (
            "tls-failed",
            "the node's log says more; it may want a certificate of ours: --tls-cert, --tls-key",
        ),
    };
    Remedy { check, mend }
}

/// A date and a time, as everywhere.
fn date(seconds: u64) -> String {
    // humantime writes years up to 9999.
    match UNIX_EPOCH.checked_add(Duration::from_secs(seconds)) {
        Some(time) if seconds < 253_402_300_800 => {
            humantime::format_rfc3339_seconds(time).to_string()
        }
        _ => "in a distant year".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_certificate_are_told_but_not_hundreds_of_them() {
        let carries = |count: usize| TlsTrouble::WrongName {
            wanted: "10.0.0.1".into(),
            carries: (1..=count).map(|n| format!("db{n}")).collect(),
        };
        assert_eq!(words(&carries(1)), "its certificate is for db1, not for '10.0.0.1'");
        assert_eq!(
            words(&carries(300)),
            "its certificate is for db1, db2, db3, ..., not for '10.0.0.1'"
        );
        assert!(words(&carries(0)).contains("no subjectAltName"));
    }

    #[test]
    fn ends_are_dates() {
        let text = words(&TlsTrouble::Expired(1_700_000_000));
        assert_eq!(text, "its certificate expired 2023-11-14T22:13:20Z");
        assert!(words(&TlsTrouble::NotYetValid(u64::MAX)).contains("distant"));
    }
}
