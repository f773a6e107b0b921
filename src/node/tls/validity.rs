//! When a certificate ends: the one field of it that rustls does not tell, found by walking over
//! what stands before it (RFC 5280, 4.1). A whole parser of certificates for one date would weigh
//! more than everything else about TLS here.

use std::time::Duration;

/// The end of the validity of the certificate `der`, since 1970. `None` where it cannot be read.
pub fn end(der: &[u8]) -> Option<Duration> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (signed, _) = element(certificate, SEQUENCE)?;
    // The version may be missing; then come the serial number, the algorithm and the issuer.
    let rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_, rest) = element(rest, INTEGER)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_begin, rest) = time(validity)?;
    let (end, _) = time(rest)?;
    Some(end)
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The contents of the element of the kind `tag` at the beginning of `der`, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The length itself has a length; four bytes are more than any certificate needs.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    (first == tag).then(|| rest.split_at_checked(length))?
}

/// The time at the beginning of `der`, and what follows it: `YYMMDDHHMMSSZ` up to 2049, then
/// `YYYYMMDDHHMMSSZ`.
fn time(der: &[u8]) -> Option<(Duration, &[u8])> {
    let (text, rest, century) = match element(der, UTC_TIME) {
        Some((text, rest)) => (text, rest, None),
        None => element(der, GENERALIZED_TIME)
            .and_then(|(text, rest)| Some((text.get(2..)?, rest, Some(pair(text)?))))?,
    };
    let [year, month, day, hour, minute, second] = *text.strip_suffix(b"Z")?.as_chunks::<2>().0
    else {
        return None;
    };
    let of = |digits: [u8; 2]| pair(&digits);
    let century = century.unwrap_or(if of(year)? < 50 { 20 } else { 19 });
    let days = days(century * 100 + of(year)?, of(month)?, of(day)?)?;
    let seconds = ((days * 24 + of(hour)?) * 60 + of(minute)?) * 60 + of(second)?;
    Some((Duration::from_secs(seconds), rest))
}

/// Two digits.
fn pair(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.get(..2)?).ok()?.parse().ok()
}

/// The days from 1970 to a date of the Gregorian calendar; none for dates before.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // Years begin in March here, so that the leap day is the last one.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    (year * 365 + leaps + (153 * month + 2) / 5 + day.checked_sub(1)?).checked_sub(719_468)
}
