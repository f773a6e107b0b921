//! What rustls' errors mean for people.

use rustls::{
    AlertDescription as Alert, CertificateError as Bad, Error, InvalidMessage,
    pki_types::ServerName,
};

use super::session::Identified;
use crate::protocol::TlsTrouble;

/// Why TLS came to nothing.
pub fn of(error: &Error, identified: Identified) -> TlsTrouble {
    match error {
        Error::InvalidCertificate(bad) => certificate(bad),
        Error::AlertReceived(alert) => told(*alert, identified),
        // The first byte is no kind of TLS message: it says something else.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsTrouble::Plain,
        Error::PeerIncompatible(why) => TlsTrouble::Incompatible(camel(&format!("{why:?}"))),
        _ => TlsTrouble::Broken(error.to_string()),
    }
}

/// What is wrong with the node's certificate.
fn certificate(bad: &Bad) -> TlsTrouble {
    match bad {
        Bad::ExpiredContext { not_after, .. } => TlsTrouble::Expired(not_after.as_secs()),
        Bad::NotValidYetContext { not_before, .. } => TlsTrouble::NotYetValid(not_before.as_secs()),
        // The signature is not that of the CA of this name: that CA has been made anew.
        Bad::UnknownIssuer | Bad::BadSignature => TlsTrouble::UnknownAuthority,
        Bad::NotValidForNameContext { expected, presented } => TlsTrouble::WrongName {
            wanted: match expected {
                ServerName::IpAddress(address) => std::net::IpAddr::from(*address).to_string(),
                name => name.to_str().into_owned(),
            },
            carries: presented.iter().map(|text| bare(text)).collect(),
        },
        Bad::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            TlsTrouble::Authority
        }
        other => TlsTrouble::Unusable(camel(&other.to_string())),
    }
}

/// What the node said before it hung up.
fn told(alert: Alert, identified: Identified) -> TlsTrouble {
    match (alert, identified) {
        (Alert::CertificateRequired, _)
        | (
            Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied,
            Identified::No,
        ) => TlsTrouble::CertificateWanted,
        (
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError,
            Identified::Yes,
        ) => TlsTrouble::CertificateRefused(camel(&format!("{alert:?}"))),
        (Alert::ProtocolVersion | Alert::InsufficientSecurity, _) => {
            TlsTrouble::Incompatible(camel(&format!("{alert:?}")))
        }
        _ => TlsTrouble::Broken(format!("it said: {}", camel(&format!("{alert:?}")))),
    }
}

/// `DnsName("db1")` and `IpAddress(127.0.0.1)`, as the library writes names, without their frames.
fn bare(text: &str) -> String {
    let inside = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(text).trim_matches('"').to_owned()
}

/// `UnknownCA` as words: `unknown ca`. Text that has spaces stays.
fn camel(text: &str) -> String {
    if text.contains(' ') {
        return text.to_owned();
    }
    let mut words = String::new();
    let mut last = ' ';
    for c in text.chars() {
        if c.is_uppercase() && last.is_lowercase() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
        last = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_mean_what_we_could_do_about_them() {
        use Identified::{No, Yes};
        let of = |alert, ours| of(&Error::AlertReceived(alert), ours);
        assert_eq!(of(Alert::CertificateRequired, No), TlsTrouble::CertificateWanted);
        // Servers without TLS 1.3 have other words for it.
        assert_eq!(of(Alert::BadCertificate, No), TlsTrouble::CertificateWanted);
        assert_eq!(of(Alert::UnknownCA, Yes), TlsTrouble::CertificateRefused("unknown ca".into()));
        assert_eq!(
            of(Alert::ProtocolVersion, No),
            TlsTrouble::Incompatible("protocol version".into())
        );
        assert_eq!(
            of(Alert::HandshakeFailure, Yes),
            TlsTrouble::Broken("it said: handshake failure".into())
        );
    }

    #[test]
    fn names_lose_their_frames() {
        assert_eq!(bare("DnsName(\"db1\")"), "db1");
        assert_eq!(bare("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(bare("db1"), "db1");
    }
}
