//! What a test expects of an output: the exact bytes, or a text in which `*` stands for whatever
//! differs from run to run (a pid, a time) within one line.

use std::fmt;

/// An expected output.
#[derive(Clone, Debug)]
pub enum Pattern {
    Exact(Vec<u8>),
    Like(String),
}

impl Pattern {
    /// Whether `text` is what was expected.
    pub fn fits(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(expected) => expected == text,
            Self::Like(pattern) => like(pattern.as_bytes(), text),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => write!(f, "exactly {:?}", String::from_utf8_lossy(text)),
            Self::Like(pattern) => write!(f, "like {pattern:?}"),
        }
    }
}

/// Whether all of `text` fits `pattern`; `*` is any number of bytes without a newline.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    // Where the last star stood and how far it had reached, to let it reach further.
    let mut star: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else {
            match star {
                Some((place, reach)) if text[reach] != b'\n' => {
                    star = Some((place, reach + 1));
                    p = place + 1;
                    t = reach + 1;
                }
                _ => return false,
            }
        }
    }
    pattern[p..].iter().all(|&rest| rest == b'*')
}

#[test]
fn star_stands_for_anything_within_a_line() {
    for (pattern, text) in [
        ("", ""),
        ("*", ""),
        ("a*c\n", "abbc\n"),
        ("a*c\n", "acc\n"),
        ("pid *, *\n", "pid 12, x\n"),
        ("*b*\n", "abab\n"),
        ("*\n*\n", "a\nb\n"),
        ("a*\nb\n", "a\nb\n"),
    ] {
        assert!(like(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
    }
    for (pattern, text) in [
        ("", "a"),
        ("a", ""),
        ("*\n", "a\nb\n"),
        ("a*", "a\n"),
        ("a*c\n", "ab\n"),
        ("*b\n", "a\nb\n"),
        ("a*b*\n", "a\nb\n"),
    ] {
        assert!(!like(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
    }
}
