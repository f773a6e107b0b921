//! What the user may not do on a node, and the rule that would let him.

use super::{Finding, Gravity, Patient};
use crate::commands::doctor::facts::Facts;

impl Patient<'_> {
    /// The rights on the node `name`.
    pub(super) fn rights(&self, name: &str, facts: &Facts, found: &mut Vec<Finding>) {
        let user = facts.user.as_deref().or_else(|| {
            let node = self.fleet.iter().zip(self.names).find(|(_, other)| *other == name);
            node?.0.credentials()?.username.as_deref()
        });
        let user = user.unwrap_or("default");
        let rule = |commands: &[&str], keys: bool, channels: bool| {
            let mut words: Vec<String> =
                commands.iter().map(|command| format!("+{command}")).collect();
            words.extend(keys.then(|| format!("~{}*", self.prefix)));
            words.extend(channels.then(|| format!("&{}redlock:*", self.prefix)));
            format!("ACL SETUSER {user} {}", words.join(" "))
        };
        let mut add = |gravity, check, what: String, endangers: &str, mend| {
            let nodes = vec![name.to_owned()];
            let endangers = endangers.to_owned();
            found.push(Finding { gravity, check, nodes, what, endangers, mend });
        };
        if facts.lacks_rights() {
            let mut lacks: Vec<String> =
                facts.missing.iter().map(|command| command.to_uppercase()).collect();
            lacks.extend(facts.no_keys.then(|| format!("the keys {}*", self.prefix)));
            let release = facts.missing.iter().any(|command| ["eval", "del"].contains(command));
            add(
                Gravity::Node,
                "rights",
                format!("user '{user}' may not use {}", lacks.join(", ")),
                if release {
                    "its vote, and every release: who may not run EVAL and DEL cannot give a lock \
                     back"
                } else {
                    "its vote: each node less brings the others closer to an outage"
                },
                rule(&facts.missing, facts.no_keys, false),
            );
        }
        if facts.no_channels || !facts.missed.is_empty() {
            let mut lacks: Vec<String> =
                facts.missed.iter().map(|c| c.to_uppercase().replace('|', " ")).collect();
            lacks.extend(
                facts.no_channels.then(|| format!("the channels {}redlock:*", self.prefix)),
            );
            add(
                Gravity::Warning,
                "channels",
                format!("user '{user}' may not use {}", lacks.join(", ")),
                "quick hand-overs: waiters are not told of a release and have to look again and \
                 again",
                rule(&facts.missed, false, facts.no_channels),
            );
        }
        if facts.no_info {
            add(
                Gravity::Warning,
                "info",
                format!("user '{user}' may not use INFO"),
                "the checks of its role, age and identity",
                rule(&["info"], false, false),
            );
        }
    }
}
