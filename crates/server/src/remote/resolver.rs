//! Which machines SERVICE and LOAD reach: the hosts that are listed, and never an address that
//! belongs to the machine's own network link or to the service that gives a machine its secrets.
//!
//! The one thing to know before changing it: the *resolved* address is checked, and the connection
//! goes to exactly the addresses that were checked. A name that means something else a moment
//! later, and a redirect, come through here again.

use crate::http::hosts::Authority;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Addresses of services that give a machine its secrets, outside the link-local ranges.
const METADATA_V4: [Ipv4Addr; 2] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Resolves names, and refuses hosts that are not listed and addresses that nothing may reach.
#[derive(Debug, Default)]
pub(super) struct CheckedResolver {
    /// The hosts that may be reached; `None` = all.
    hosts: Option<Vec<Authority>>,
    names: DefaultResolver,
}

impl CheckedResolver {
    pub(super) fn new(hosts: Option<Vec<Authority>>) -> CheckedResolver {
        CheckedResolver {
            hosts,
            names: DefaultResolver::default(),
        }
    }

    fn check_host(&self, uri: &Uri) -> Result<(), String> {
        let Some(hosts) = &self.hosts else {
            return Ok(());
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let default = if uri.scheme_str() == Some("https") {
            443
        } else {
            80
        };
        let asked = Authority::parse(authority).map(|asked| asked.or_port(default));
        match asked.is_some_and(|asked| hosts.iter().any(|host| host.covers(&asked))) {
            true => Ok(()),
            false => Err(format!(
                "{authority} is not among the hosts that this server may reach (serve --remote-host)"
            )),
        }
    }
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let refused = |said: String| ureq::Error::Io(io::Error::other(said));
        self.check_host(uri).map_err(refused)?;
        let found = self.names.resolve(uri, config, timeout)?;
        match found.iter().find(|address| is_never_reached(address.ip())) {
            None => Ok(found),
            Some(address) => Err(refused(format!(
                "{} is at {}, an address that SERVICE and LOAD never reach",
                uri.host().unwrap_or_default(),
                address.ip()
            ))),
        }
    }
}

/// Whether an address is of the own network link, of a service that gives a machine its secrets, or
/// of no single machine.
fn is_never_reached(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_link_local()
                || address.octets()[0] == 0
                || address.is_multicast()
                || address.is_broadcast()
                || METADATA_V4.contains(&address)
        }
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || address.is_unspecified()
                || address.is_multicast()
                || address == METADATA_V6
                || embedded(address).is_some_and(|inside| is_never_reached(inside.into()))
        }
    }
}

/// The IPv4 address inside an address of 6to4 (RFC 3056) or NAT64 (RFC 6052), or in an
/// IPv4-compatible one (RFC 4291, 2.5.5.1).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0x2002, high, low, ..] => Some(of(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0] => Some(of(g, h)),
        [0, 0, 0, 0, 0, 0] if !address.is_loopback() => Some(of(g, h)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_nothing_may_reach() {
        for never in [
            "169.254.169.254",
            "169.254.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
        ] {
            assert!(is_never_reached(never.parse().expect(never)), "{never}");
        }
        for fine in [
            "127.0.0.1",
            "10.0.0.7",
            "192.0.2.1",
            "::1",
            "2001:db8::1",
            "fd00::1",
            "::ffff:10.0.0.7",
        ] {
            assert!(!is_never_reached(fine.parse().expect(fine)), "{fine}");
        }
    }

    #[test]
    fn only_listed_hosts_are_asked() {
        let list = ["graph.example", "other.example:81", "secure.example:443"]
            .map(|host| Authority::parse(host).expect(host));
        let resolver = CheckedResolver::new(Some(list.to_vec()));
        for (url, is_listed) in [
            ("http://graph.example/sparql", true),
            ("http://GRAPH.example:8080/", true),
            ("http://other.example:81/", true),
            ("http://other.example/", false),
            ("https://graph.example/sparql", true),
            ("https://secure.example/", true),
            ("https://secure.example:8443/", false),
            ("http://secure.example/", false),
            ("http://evil.example/", false),
            ("http://graph.example.evil.example/", false),
            ("http://user@evil.example/", false),
        ] {
            let uri: Uri = url.parse().expect(url);
            assert_eq!(resolver.check_host(&uri).is_ok(), is_listed, "{url}");
        }
        let all = CheckedResolver::default();
        assert!(
            all.check_host(&Uri::from_static("http://evil.example/"))
                .is_ok()
        );
    }
}
