//! Names that certificates have to carry, and the ends of certificates.

use std::time::{Duration, UNIX_EPOCH};

use rcgen::{CertificateParams, KeyPair, SerialNumber, date_time_ymd};

use super::*;
use crate::node::{Endpoint, Fleet};

fn name_of(node: &str, said: Option<&str>) -> Result<String, String> {
    let client = TlsClient::new(Roots::Anybody, None, said).map_err(|error| error.to_string())?;
    let fleet = Fleet::parse([node], None).unwrap();
    let fleet = fleet.secured(&client).map_err(|error| error.to_string())?;
    let peer = fleet.iter().next().and_then(Endpoint::peer);
    Ok(peer.map_or_else(|| "none".into(), |peer| peer.name.to_str().into_owned()))
}

#[test]
fn certificate_has_to_carry_the_name_in_the_list_or_the_one_that_was_said() {
    for (node, said, expected) in [
        ("rediss://DB1:7000", None, "db1"),
        ("rediss://db1.example.", None, "db1.example"),
        ("rediss://10.0.0.1", None, "10.0.0.1"),
        ("rediss://[::1]", None, "::1"),
        ("rediss://10.0.0.1", Some("db1"), "db1"),
        ("rediss://db1", Some("10.0.0.1"), "10.0.0.1"),
        ("redis://db1", Some("db1"), "none"),
        ("unix:///run/s", None, "none"),
    ] {
        assert_eq!(name_of(node, said).as_deref(), Ok(expected), "{node}");
    }
    let error = name_of("rediss://a..b", None).unwrap_err();
    assert!(error.contains("rediss://a..b:6379") && error.contains("--tls-server-name"), "{error}");
    assert_eq!(name_of("rediss://a..b", Some("b")).as_deref(), Ok("b"));
    assert!(name_of("rediss://a", Some("b c")).is_err());
}

/// A certificate that ends then, by the encoder of another library.
fn certificate(adjust: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params = CertificateParams::new(vec!["db1".to_owned()]).unwrap();
    adjust(&mut params);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

#[test]
fn end_of_a_certificate_is_found() {
    // The last year that is written with two digits, the first with four, leap days, centuries.
    for (year, month, day) in
        [(2023, 11, 14), (2049, 12, 31), (2050, 1, 1), (2096, 2, 29), (2100, 3, 1), (1970, 1, 1)]
    {
        let end = date_time_ymd(year, month, day);
        let der = certificate(|params| params.not_after = end);
        let seconds = u64::try_from(end.unix_timestamp()).unwrap();
        assert_eq!(validity::end(&der), Some(Duration::from_secs(seconds)), "{end}");
    }
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_001);
    let der = certificate(|params| params.not_after = now.into());
    assert_eq!(validity::end(&der), Some(Duration::from_secs(1_700_000_001)));
    // A serial number so long that its length has a length.
    let der = certificate(|params| {
        params.serial_number = Some(SerialNumber::from(vec![1; 200]));
        params.not_after = now.into();
    });
    assert_eq!(validity::end(&der), Some(Duration::from_secs(1_700_000_001)));
}

#[test]
fn what_is_no_certificate_has_no_end() {
    let der = certificate(|_| {});
    let (found, length) = (validity::end(&der).unwrap(), der.len());
    assert!(found > Duration::ZERO && length > 200);
    // Cut short anywhere it is none, or its end was not cut off; never does it panic.
    for cut in 0..length {
        assert!(validity::end(&der[..cut]).is_none(), "{cut}");
    }
    for place in 0..length {
        for byte in [0x00, 0x30, 0x7f, 0x84, 0x85, 0xff] {
            let mut broken = der.clone();
            broken[place] = byte;
            validity::end(&broken);
        }
    }
}
