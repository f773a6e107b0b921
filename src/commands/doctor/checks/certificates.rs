//! Certificates that end soon, or that nobody looks at.

use std::time::{Duration, UNIX_EPOCH};

use super::{Finding, Gravity, Patient};
use crate::{commands::doctor::facts::Facts, node::Trust};

/// So long before its end somebody should know.
const SOON: Duration = Duration::from_secs(14 * DAY);

const DAY: u64 = 86_400;

impl Patient<'_> {
    /// The certificate of the node `name`. One that has ended is seen here only when certificates
    /// are not checked: otherwise the node is as one that is down.
    pub(super) fn certificate(&self, name: &str, facts: &Facts, found: &mut Vec<Finding>) {
        let Some(ends) = facts.certificate_ends else { return };
        let rest = ends.saturating_sub(self.wall);
        if rest > SOON {
            return;
        }
        let date = humantime::format_rfc3339_seconds(UNIX_EPOCH + ends);
        let (check, what, endangers) = if rest.is_zero() {
            let endangers = "its vote, as soon as certificates are checked again";
            ("certificate-ended", format!("its certificate ended {date}"), endangers)
        } else {
            let left = match rest.as_secs() / DAY {
                0 => "in less than a day".to_owned(),
                1 => "in a day".to_owned(),
                days => format!("in {days} days"),
            };
            let what = format!("its certificate ends {date}, {left}");
            (
                "certificate-ends",
                what,
                "its vote from then on, and those of all nodes that share it",
            )
        };
        found.push(Finding {
            gravity: Gravity::Warning,
            check,
            nodes: vec![name.to_owned()],
            what,
            endangers: endangers.into(),
            mend: "renew it, and have the node read it: CONFIG SET tls-cert-file FILE".into(),
        });
    }

    /// Whether certificates are looked at, where there are any.
    pub(super) fn trust(&self, found: &mut Vec<Finding>) {
        if self.fleet.wants_tls() && self.fleet.trust() == Trust::Blind {
            found.push(Finding {
                gravity: Gravity::Warning,
                check: "tls-insecure",
                nodes: Vec::new(),
                what: "certificates are not checked (--tls-insecure)".into(),
                endangers: "the lock and the password: whoever stands between here and the nodes \
                            can answer in their place"
                    .into(),
                mend: "leave it out; --tls-ca FILE names the CA, --tls-server-name the name".into(),
            });
        }
    }
}
