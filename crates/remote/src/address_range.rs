use std::net::IpAddr;
use std::str::FromStr;

use crate::Error;

/// A range of addresses, as in `10.0.0.0/8`; a single address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    /// Number of leading bits that all addresses of the range share.
    bits: u32,
}

impl AddressRange {
    /// Creates a range of one address.
    pub fn of(address: IpAddr) -> Self {
        let first = address.to_canonical();
        AddressRange { first, bits: width(first) }
    }

    /// Returns true for an address in the range. An IPv4 address that is written as one of IPv6 counts as
    /// IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let prefix = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()).checked_shr(32 - self.bits),
            IpAddr::V6(address) => Some(address.to_bits().checked_shr(128 - self.bits).unwrap_or(0)),
        };
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && prefix(address) == prefix(self.first)
    }
}

const fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl FromStr for AddressRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Setting {
            text: text.to_owned(),
            expected: "is neither an address nor a range of addresses such as 10.0.0.0/8".to_owned(),
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = bits.unwrap_or_else(|| width(first));
        if bits > width(first) {
            return Err(wrong());
        }
        // Addresses are compared in their canonical form. A range of IPv4 addresses in the form of IPv6 has
        // no others.
        let canonical = first.to_canonical();
        let bits = bits.checked_sub(width(first) - width(canonical)).ok_or_else(wrong)?;
        Ok(AddressRange { first: canonical, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_addresses() {
        for (range, address, expected) in [
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "255.1.2.3", true),
            ("0.0.0.0/0", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("::ffff:127.0.0.1", "127.0.0.1", true),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::/0", "fe80::1", true),
            ("::1", "::1", true),
            ("::1", "::2", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
        ] {
            let parsed: AddressRange = range.parse().expect("a range");
            assert_eq!(parsed.contains(address.parse().expect("an address")), expected, "{range} {address}");
        }
        for text in ["", "a", "10.0.0.0/33", "::/129", "10.0.0.0/x", "10.0.0/8", "10.0.0.0/", "::ffff:0:0/64"]
        {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }
}
