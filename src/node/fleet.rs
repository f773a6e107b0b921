//! The nodes of a lock: a list in canonical order, without duplicates, with a fingerprint by
//! which holders of different lists recognise each other.

use std::collections::HashMap;

use uuid::Uuid;

use super::{
    endpoint::{Address, Credentials, Endpoint, Transport},
    endpoint_error::EndpointError,
    tls::{TlsClient, Trust},
};
use crate::protocol::NodeIndex;

/// The nodes, sorted by their canonical text: their order on the command line means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    nodes: Vec<Endpoint>,
    trust: Trust,
}

impl Fleet {
    /// The greatest number of nodes.
    pub const MAX: usize = 15;

    /// Reads a list of nodes; `defaults` is for those that carry no credentials. Whether an even
    /// list is wanted is for the settings to say.
    pub fn parse<'a>(
        items: impl IntoIterator<Item = &'a str>,
        defaults: Option<&Credentials>,
    ) -> Result<Self, EndpointError> {
        let mut nodes = Vec::new();
        for item in items {
            let node = Endpoint::parse(item)?;
            nodes.push(node.or_credentials(defaults)?);
        }
        let mut seen: HashMap<&Address, &Endpoint> = HashMap::new();
        for node in &nodes {
            if let Some(also) = seen.insert(node.address(), node) {
                return Err(EndpointError::Twice {
                    node: also.to_string(),
                    also: node.to_string(),
                });
            }
        }
        match nodes.len() {
            0 => Err(EndpointError::None),
            count if count > Self::MAX => Err(EndpointError::TooMany { count, max: Self::MAX }),
            _ => {
                nodes.sort_by_cached_key(Endpoint::to_string);
                Ok(Self { nodes, trust: Trust::Checked })
            }
        }
    }

    /// Whether any node wants TLS: then [`Fleet::secured`] has to follow.
    pub fn wants_tls(&self) -> bool {
        self.nodes.iter().any(|node| node.transport() == Transport::Tls)
    }

    /// The same nodes, with `client` for those that want TLS.
    pub fn secured(self, client: &TlsClient) -> Result<Self, EndpointError> {
        let nodes = self.nodes.into_iter().map(|node| node.secured(client));
        Ok(Self { nodes: nodes.collect::<Result<_, _>>()?, trust: client.trust() })
    }

    /// Whether the nodes' certificates are checked, where they have any.
    pub const fn trust(&self) -> Trust {
        self.trust
    }

    /// How many nodes there are; never zero.
    #[expect(clippy::len_without_is_empty, reason = "an empty fleet cannot be made")]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node at `index`.
    pub fn get(&self, index: NodeIndex) -> Option<&Endpoint> {
        self.nodes.get(index.get())
    }

    /// The nodes in canonical order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Endpoint> {
        self.nodes.iter()
    }

    /// Eight hex digits that two fleets share exactly when nodes, databases and prefix are the
    /// same, whatever their credentials.
    pub fn fingerprint(&self, prefix: &str) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            text.push_str(&node.to_string());
            text.push('\n');
        }
        // The prefix comes last: whatever is in it, it cannot be taken for a node.
        text.push('\n');
        text.push_str(prefix);
        let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, text.as_bytes());
        id.simple().to_string().chars().take(8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(items: &[&str]) -> Result<Fleet, EndpointError> {
        Fleet::parse(items.iter().copied(), None)
    }

    fn shown(fleet: &Fleet) -> Vec<String> {
        fleet.iter().map(Endpoint::to_string).collect()
    }

    #[test]
    fn order_of_the_list_means_nothing() {
        let one = fleet(&["redis://c:1", "a:1", "b:1"]).unwrap();
        assert_eq!(shown(&one), ["a:1", "b:1", "c:1"]);
        assert_eq!(one, fleet(&["b:1", "c:1", "a:1/0"]).unwrap());
        assert_eq!(one.get(NodeIndex(2)).unwrap().to_string(), "c:1");
        assert_eq!((one.len(), one.get(NodeIndex(3))), (3, None));
    }

    #[test]
    fn same_server_twice_is_refused_by_name() {
        for (items, expected) in [
            (["a:1", "redis://A:1/"], "node 'a:1' is in the list twice"),
            (["a:1", "redis://:pw@a:1/2"], "nodes 'a:1' and 'a:1/2' are the same server"),
            (["[::1]:1", "[0::1]:1"], "node '[::1]:1' is in the list twice"),
            (["unix:///s", "unix:///s?db=1"], "nodes 'unix:///s' and 'unix:///s?db=1'"),
        ] {
            let error = fleet(&items).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn empty_and_endless_lists_are_refused() {
        assert_eq!(fleet(&[]), Err(EndpointError::None));
        let many: Vec<_> = (1..=16).map(|port| format!("a:{port}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(fleet(&many), Err(EndpointError::TooMany { count: 16, max: 15 }));
        assert!(fleet(&many[..15]).is_ok());
    }

    #[test]
    fn tls_is_wanted_by_one_node_that_does() {
        assert!(!fleet(&["redis://a", "unix:///s", "b"]).unwrap().wants_tls());
        assert!(fleet(&["redis://a", "rediss://b", "c"]).unwrap().wants_tls());
    }

    #[test]
    fn defaults_are_for_nodes_without_credentials() {
        let defaults = Credentials { username: Some("u".into()), password: "p".into() };
        let fleet = Fleet::parse(["a:1", "redis://:own@b:1"], Some(&defaults)).unwrap();
        let of = |index| fleet.get(NodeIndex(index)).unwrap().credentials().unwrap();
        assert_eq!(*of(0), defaults);
        assert_eq!((of(1).username.as_deref(), of(1).password.as_str()), (None, "own"));
    }

    #[test]
    fn fingerprint_tells_lists_databases_and_prefixes_apart_and_nothing_else() {
        let print = |items: &[&str], prefix: &str| fleet(items).unwrap().fingerprint(prefix);
        let one = print(&["a:1", "b:1"], "");
        assert!(one.len() == 8 && one.bytes().all(|b| b.is_ascii_hexdigit()), "{one}");
        // Written down: hosts of different versions must agree.
        assert_eq!(one, "fb324fd5");
        assert_eq!(one, print(&["redis://:pw@b:1", "a:1"], ""));
        assert_ne!(one, print(&["a:1", "b:1"], "p"));
        assert_ne!(one, print(&["a:1", "b:1/1"], ""));
        assert_ne!(one, print(&["a:1"], ""));
    }
}
