//! Which addresses a lab uses: a /24 of its own that overlaps nothing this machine already routes.
//!
//! Pure; the routes are handed in. [`crate::lab`] asks.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    base: u32,
    bits: u8,
}

impl Subnet {
    /// The range of `bits` leading bits around `address`; more than 32 are taken for 32.
    pub fn new(address: Ipv4Addr, bits: u8) -> Self {
        let bits = bits.min(32);
        Self { base: u32::from(address) & mask(bits), bits }
    }

    /// Whether an address lies in both.
    pub fn overlaps(self, other: Self) -> bool {
        let shared = mask(self.bits.min(other.bits));
        self.base & shared == other.base & shared
    }

    /// Whether this address lies in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        self.overlaps(Self::new(address, 32))
    }

    /// The n-th address of the range.
    pub fn address(self, n: u8) -> Ipv4Addr {
        Ipv4Addr::from(self.base | u32::from(n))
    }

    /// The address of node number `number`, counted from 1; `.1` is the network's own.
    pub(crate) fn of_node(self, number: u8) -> Ipv4Addr {
        self.address(10 + number)
    }

    fn is_default(self) -> bool {
        self.bits == 0
    }
}

fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.bits)
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(address, bits)| {
            let bits: u8 = bits.parse().ok()?;
            (bits <= 32).then_some(Self::new(address.parse().ok()?, bits))
        });
        parsed.ok_or_else(|| format!("{text:?} is no IPv4 range such as 10.231.7.0/24"))
    }
}

/// The ranges a lab may use, in the order it tries them: /24s of 10.231.0.0/16, beginning at one its name decides, so
/// that labs side by side rarely meet and one lab gets the same addresses again.
pub(crate) fn candidates(lab: &str) -> impl Iterator<Item = Subnet> {
    // FNV-1a: any spread will do, and it is the same on every machine.
    let spread =
        lab.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let first = spread.to_be_bytes()[3];
    (0..=u8::MAX).map(move |step| Subnet::new(Ipv4Addr::new(10, 231, first.wrapping_add(step), 0), 24))
}

/// Whether the range is free of every route but the default one.
pub(crate) fn is_free(candidate: Subnet, routes: &[Subnet]) -> bool {
    routes.iter().all(|route| route.is_default() || !route.overlaps(candidate))
}

/// Reads the kernel's table of IPv4 routes (`/proc/net/route`).
pub(crate) fn routes(table: &str) -> Vec<Subnet> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |column: usize| u32::from_str_radix(columns.get(column)?, 16).ok().map(u32::from_be);
        let (destination, mask) = (number(1)?, number(7)?);
        let bits = u8::try_from(mask.leading_ones()).ok()?;
        Some(Subnet::new(Ipv4Addr::from(destination), bits))
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    const TABLE: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
        eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n\
        eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
        tun0 0000E70A 00000000 0001 0 0 0 0000FFFF 0 0 0\n";

    #[test]
    fn the_kernels_table_is_read_with_its_byte_order() {
        let read: Vec<String> = routes(TABLE).iter().map(ToString::to_string).collect();
        assert_eq!(read, ["0.0.0.0/0", "192.0.2.0/24", "10.231.0.0/16"]);
    }

    #[test]
    fn a_range_inside_around_or_equal_to_a_route_is_taken_and_the_default_route_takes_none() {
        let range = |text: &str| text.parse::<Subnet>().unwrap();
        let candidate = range("10.231.7.0/24");
        for taken in ["10.231.7.0/24", "10.231.0.0/16", "10.231.7.128/25", "10.231.7.9/32", "10.0.0.0/8"] {
            assert!(!is_free(candidate, &[range(taken)]), "{taken}");
        }
        for apart in ["10.231.8.0/24", "192.0.2.0/24", "0.0.0.0/0"] {
            assert!(is_free(candidate, &[range(apart)]), "{apart}");
        }
    }

    #[test]
    fn a_lab_gets_the_same_range_again_and_another_lab_another() {
        assert_eq!(candidates("mesh").next(), candidates("mesh").next());
        assert_ne!(candidates("mesh").next(), candidates("other").next());
        assert_eq!(candidates("mesh").count(), 256);
    }

    #[test]
    fn nodes_have_addresses_of_their_own_within_the_range() {
        let subnet: Subnet = "10.231.7.0/24".parse().unwrap();
        assert_eq!(subnet.of_node(1).to_string(), "10.231.7.11");
        assert!(subnet.contains(subnet.of_node(9)));
        assert!("10.231.7.0".parse::<Subnet>().is_err());
        assert!("10.231.7.0/33".parse::<Subnet>().is_err());
    }
}
