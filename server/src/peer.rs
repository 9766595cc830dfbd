//! Who is at the other end of a connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Where a connection comes from. Every request carries it in its extensions, for layers
/// that limit, trace or count by client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Over TCP.
    Tcp(SocketAddr),
    /// From the same process, over memory.
    InMemory,
    /// Over a connection that the embedding program brought, from where only it knows.
    Unknown,
}

impl Peer {
    /// The client that the connection is counted for; `None`: for none. What comes from
    /// the same process, or through the program around the server, is that program's affair.
    pub(crate) fn client(self) -> Option<Client> {
        match self {
            Self::Tcp(address) => Some(Client::at(address.ip())),
            Self::InMemory | Self::Unknown => None,
        }
    }
}

/// Whom shares are counted for: an IPv4 address, or an IPv6 network of 64 bits, since that
/// is the least that one customer is given: single addresses cost nothing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client(IpAddr);

impl Client {
    fn at(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            address => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_one_ipv4_address_or_one_ipv6_network() {
        let client = |address: &str| Peer::Tcp(address.parse().unwrap()).client();
        assert_eq!(client("10.0.0.1:1"), client("10.0.0.1:2"));
        assert_ne!(client("10.0.0.1:1"), client("10.0.0.2:1"));
        assert_eq!(client("10.0.0.1:1"), client("[::ffff:10.0.0.1]:1"));
        assert_eq!(client("[2001:db8::1]:1"), client("[2001:db8::ffff:2]:1"));
        assert_ne!(client("[2001:db8::1]:1"), client("[2001:db8:0:1::1]:1"));
        assert_eq!(Peer::InMemory.client(), None);
    }
}
