//! Limits on requests and written bytes a second, on requests in flight, and on the stored documents of
//! groups.
//!
//! Two limits on requests are the operator's and count facts known to the server itself: requests for the
//! documents of one group, and requests from one address (`--group-rate-max`, `--address-rate-max`). A third
//! is advisory: the parameters of queries about their client (`rate.id`, `rate.quota`, `rate.cost`,
//! `rate.dryRun`) apply to clients that send them, and to no other: each credential has its own ids, and so
//! has each of its groups.
//!
//! The bytes of the documents that clients write are counted by caller and by group (`fed`), and those that
//! their updates write again, once these are decided (`rewrites`). Requests in
//! flight are counted by caller, up to the limit of its credential, and by group, up to
//! `--group-concurrent-max`, from their admission until their answers begin.
//!
//! Each key of the others has an allowance of one second's requests or bytes, which refills as time passes. A
//! request is admitted while some of it is left, and then takes its cost; any excess is paid back first.
//! Limits are each node's own, and count where a client's request arrives: not again at the nodes to which it
//! is forwarded.

mod allowances;
mod fed_bytes;
mod group_sizes;
mod rewrites;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::RequestCaller;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_node::metrics::{CountedMetric, NodeMetrics};
use millrace_store::ViewScope;
use parking_lot::Mutex;

use self::allowances::TokenBuckets;
use self::fed_bytes::FedByteLimits;
use self::group_sizes::GroupSizeLimits;
use crate::Settings;
use crate::access_log::ConnectionPeer;

pub(crate) use self::fed_bytes::{FedBytes, FedBytesCounted};
pub(crate) use self::group_sizes::{DocumentTotals, UncommittedSize};
pub(crate) use self::rewrites::RewrittenBytes;

/// Maximum number of stored keys of one kind.
const KEYS_MAX: usize = 100_000;

/// The longest time that a client pays back the requests that it sent beyond its rate.
const DEBT_MAX: Duration = Duration::from_secs(60);

/// The limits of a node, and the remaining allowances.
pub(crate) struct ClientQuotas {
    groups: RateLimit<DocumentGroup>,
    addresses: RateLimit<IpAddr>,
    group_sizes: GroupSizeLimits,
    fed: FedByteLimits,
    /// No client can use up what another one may ask.
    claims: Mutex<TokenBuckets<ClaimKey>>,
    callers: Mutex<TokenBuckets<String>>,
    /// Requests in flight of callers that have a limit on them.
    in_flight: InFlightCounts<String>,
    /// Maximum number of requests in flight for the documents of one group; `None` for no limit.
    group_concurrent_max: Option<u32>,
    in_flight_of_groups: InFlightCounts<DocumentGroup>,
}

/// Name and only group of a caller, and an id of its clients. Several persons can share a credential, that of
/// a proxy, or have none.
type ClaimKey = (Arc<str>, Option<DocumentGroup>, String);

/// Requests in flight by the key of their limit.
type InFlightCounts<K> = Arc<Mutex<HashMap<K, u32>>>;

/// A request in flight that counts against a limit, until this is dropped.
pub(crate) struct InFlightTurn<K: Eq + Hash> {
    key: K,
    counts: InFlightCounts<K>,
}

/// A request in flight of a caller that has a limit on them.
pub(crate) type CallerTurn = InFlightTurn<String>;

/// A request in flight for the documents of a group, if there is a limit on them.
pub(crate) type GroupTurn = InFlightTurn<DocumentGroup>;

impl<K: Clone + Eq + Hash> InFlightTurn<K> {
    /// Counts a request; `None` if as many as the limit, which is above 0, are in flight.
    fn take(counts: &InFlightCounts<K>, key: K, limit: u32) -> Option<Self> {
        let mut in_flight = counts.lock();
        let count = in_flight.entry(key.clone()).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        drop(in_flight);
        Some(InFlightTurn { key, counts: Arc::clone(counts) })
    }
}

impl<K: Eq + Hash> Drop for InFlightTurn<K> {
    fn drop(&mut self) {
        let mut in_flight = self.counts.lock();
        match in_flight.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            // Keys without a request in flight take no memory.
            _ => drop(in_flight.remove(&self.key)),
        }
    }
}

/// A limit on requests a second for each key.
struct RateLimit<K> {
    /// Limit; `None` for no limit.
    per_second: Option<f64>,
    left: Mutex<TokenBuckets<K>>,
}

impl<K: Clone + Eq + Hash + Ord> RateLimit<K> {
    fn new(per_second: Option<f64>) -> Self {
        RateLimit { per_second, left: Mutex::new(TokenBuckets::new(KEYS_MAX, DEBT_MAX)) }
    }

    /// Returns the limit that a request exceeds, if any.
    fn exceeded(&self, key: &K, now: Instant) -> Option<f64> {
        let limit = self.per_second?;
        // A table is consistent even if a thread that held it panicked.
        let mut left = self.left.lock();
        (!left.take(key, limit, 1.0, now)).then_some(limit)
    }
}

/// Statement of a query about its client.
#[derive(Debug, PartialEq)]
pub(crate) struct QuotaHints {
    id: String,
    quota: f64,
    cost: f64,
    dry_run: bool,
}

/// The address by which a client without a credential is known. One client may have all addresses of a
/// network of 64 bits.
pub(crate) fn client_network(address: &SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

impl QuotaHints {
    /// Parses a query's parameters; `None` if they lack an id or a quota.
    pub fn from_parameters(parameters: &BTreeMap<String, String>) -> Result<Option<Self>, Error> {
        let get = |name| parameters.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let number = |name: &'static str| {
            let number = |text: &str| {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
                number
                    .ok_or_else(|| Error::parameter(name, format!("expected a number from 0, got '{text}'")))
            };
            get(name).map(number).transpose()
        };
        let (quota, cost) = (number("rate.quota")?, number("rate.cost")?.unwrap_or(1.0));
        let dry_run = get("rate.dryRun") == Some("true");
        let claim = |(id, quota): (&str, f64)| QuotaHints { id: id.to_owned(), quota, cost, dry_run };
        Ok(get("rate.id").zip(quota).map(claim))
    }
}

impl ClientQuotas {
    pub fn new(settings: &Settings) -> Self {
        ClientQuotas {
            groups: RateLimit::new(settings.group_rate_max),
            addresses: RateLimit::new(settings.address_rate_max),
            group_sizes: GroupSizeLimits::new(settings.group_documents_max, settings.group_bytes_max),
            fed: FedByteLimits::new(settings.group_fed_bytes_max),
            claims: Mutex::new(TokenBuckets::new(KEYS_MAX, DEBT_MAX)),
            callers: Mutex::new(TokenBuckets::new(KEYS_MAX, DEBT_MAX)),
            in_flight: Arc::default(),
            group_concurrent_max: settings.group_concurrent_max,
            in_flight_of_groups: Arc::default(),
        }
    }

    /// Limits on the stored documents of each group.
    pub fn group_sizes(&self) -> &GroupSizeLimits {
        &self.group_sizes
    }

    /// Limits on the bytes of the documents that clients write.
    pub fn fed(&self) -> &FedByteLimits {
        &self.fed
    }

    /// Counts a request by the address of its client.
    ///
    /// # Errors
    /// [`Error::OverRate`].
    pub fn admit_address(
        &self,
        peer: Option<&ConnectionPeer>,
        now: Instant,
        metrics: &NodeMetrics,
    ) -> Result<(), Error> {
        let Some(peer) = peer else { return Ok(()) };
        let address = client_network(&peer.address);
        let Some(limit) = self.addresses.exceeded(&address, now) else { return Ok(()) };
        metrics.count(CountedMetric::OverQuota);
        Err(Error::OverRate { of: format!("the server, from {address},"), limit, flag: "--address-rate-max" })
    }

    /// Counts a request by its caller. The turn lasts as long as the request is in flight; `None` if the
    /// caller has no limit on that.
    ///
    /// # Errors
    /// [`Error::OverRate`], [`Error::OverConcurrency`].
    pub fn admit_caller(
        &self,
        caller: &RequestCaller,
        now: Instant,
        metrics: &NodeMetrics,
    ) -> Result<Option<CallerTurn>, Error> {
        self.admit_query(caller, now, metrics)?;
        let Some(limit) = caller.limits.concurrent else { return Ok(None) };
        match CallerTurn::take(&self.in_flight, caller.name.to_string(), limit) {
            Some(turn) => Ok(Some(turn)),
            None => {
                metrics.count(CountedMetric::OverQuota);
                let of = format!("'{}'", caller.name);
                Err(Error::OverConcurrency { of, limit, setting: "its credential" })
            }
        }
    }

    /// Counts a request of a caller, or a query of a request with several.
    ///
    /// # Errors
    /// [`Error::OverRate`].
    pub fn admit_query(
        &self,
        caller: &RequestCaller,
        now: Instant,
        metrics: &NodeMetrics,
    ) -> Result<(), Error> {
        let Some(limit) = caller.limits.queries else { return Ok(()) };
        if self.callers.lock().take(&caller.name.to_string(), limit, 1.0, now) {
            return Ok(());
        }
        metrics.count(CountedMetric::OverQuota);
        let of = format!("the server, by '{}',", caller.name);
        Err(Error::OverRate { of, limit, flag: "limits.queries of the credential" })
    }

    /// Counts a request by the groups of the requested documents. The turns last as long as it is in flight.
    ///
    /// # Errors
    /// [`Error::OverRate`], [`Error::OverConcurrency`].
    pub fn admit_scope(
        &self,
        scope: &ViewScope,
        now: Instant,
        metrics: &NodeMetrics,
    ) -> Result<Vec<GroupTurn>, Error> {
        let groups: &[DocumentGroup] = match scope {
            ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => groups,
            ViewScope::Buckets(_) | ViewScope::All => &[],
        };
        let turn = |group: &DocumentGroup| {
            self.admit_group(group, now, metrics)?;
            self.turn_of_group(group, metrics)
        };
        groups.iter().filter_map(|group| turn(group).transpose()).collect()
    }

    /// Counts a request in flight for documents of a group; `None` without a limit on them.
    ///
    /// # Errors
    /// [`Error::OverConcurrency`].
    pub fn turn_of_group(
        &self,
        group: &DocumentGroup,
        metrics: &NodeMetrics,
    ) -> Result<Option<GroupTurn>, Error> {
        let Some(limit) = self.group_concurrent_max else { return Ok(None) };
        match GroupTurn::take(&self.in_flight_of_groups, group.clone(), limit) {
            Some(turn) => Ok(Some(turn)),
            None => {
                metrics.count(CountedMetric::OverQuota);
                let setting = "--group-concurrent-max";
                Err(Error::OverConcurrency { of: group.in_words(), limit, setting })
            }
        }
    }

    /// Counts a request for documents of a group.
    ///
    /// # Errors
    /// [`Error::OverRate`].
    pub fn admit_group(
        &self,
        group: &DocumentGroup,
        now: Instant,
        metrics: &NodeMetrics,
    ) -> Result<(), Error> {
        let Some(limit) = self.groups.exceeded(group, now) else { return Ok(()) };
        metrics.count(CountedMetric::OverQuota);
        Err(Error::OverRate { of: group.in_words(), limit, flag: "--group-rate-max" })
    }

    /// Admits a query, or refuses it because its client has used up the quota that it states.
    ///
    /// # Errors
    /// [`Error::OverQuota`].
    pub fn admit_claim(
        &self,
        caller: &RequestCaller,
        claim: &QuotaHints,
        now: Instant,
        metrics: &NodeMetrics,
    ) -> Result<(), Error> {
        // As above.
        let mut claims = self.claims.lock();
        let key = (Arc::clone(&caller.name), caller.only_group().cloned(), claim.id.clone());
        if claims.take(&key, claim.quota, claim.cost, now) {
            return Ok(());
        }
        drop(claims);
        metrics.count(CountedMetric::OverQuota);
        match claim.dry_run {
            true => Ok(()),
            false => Err(Error::OverQuota { id: claim.id.clone(), quota: claim.quota }),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_access::CallerLimits;

    use super::*;

    fn claim(text: &str) -> Result<Option<QuotaHints>, String> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        let parameters = pairs.map(|(name, value)| (format!("rate.{name}"), value.to_owned())).collect();
        QuotaHints::from_parameters(&parameters).map_err(|error| error.to_string())
    }

    fn quotas(group: Option<f64>, address: Option<f64>) -> ClientQuotas {
        let settings = Settings::new("unused".into());
        ClientQuotas::new(&Settings { group_rate_max: group, address_rate_max: address, ..settings })
    }

    #[test]
    fn the_server_counts_groups_and_addresses_whatever_a_query_says() {
        let (metrics, start) = (NodeMetrics::new(), Instant::now());
        let limited = quotas(Some(2.0), Some(3.0));
        let group = |name: &str, millis: u64| {
            let scope = ViewScope::Groups(vec![DocumentGroup::Name(name.to_owned())]);
            let now = start + Duration::from_millis(millis);
            limited.admit_scope(&scope, now, &metrics).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(
            [group("a", 0).is_ok(), group("a", 0).is_ok(), group("a", 0).is_ok()],
            [true, true, false]
        );
        let refused =
            "group 'a' is asked more than 2 times a second; ask again in a second, or raise --group-rate-max";
        assert_eq!(group("a", 0), Err(refused.to_owned()));
        assert_eq!((group("b", 0), group("a", 600)), (Ok(()), Ok(())));
        let address = |text: &str| {
            let address = text.parse().expect("an address");
            let peer =
                ConnectionPeer { address, local_port: 8080, tls: false, is_node: false, certificate: None };
            limited.admit_address(Some(&peer), start, &metrics).is_ok()
        };
        let asked = ["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::1]:9", "[2001:db8::3]:1"];
        assert_eq!(asked.map(address), [true, true, true, false], "addresses of one network");
        assert!(address("[2001:db8:0:1::1]:1") && address("192.0.2.1:1"));
        let same = ["192.0.2.1:2", "[::ffff:192.0.2.1]:3", "192.0.2.1:4"];
        assert_eq!(same.map(address), [true, true, false]);
        let unlimited = quotas(None, None);
        for _ in 0..9 {
            assert!(unlimited.admit_group(&DocumentGroup::None, start, &metrics).is_ok());
        }
    }

    #[test]
    fn a_caller_has_the_limits_of_its_credential() {
        let (metrics, start) = (NodeMetrics::new(), Instant::now());
        let limited = quotas(None, None);
        let caller = |name: &str, queries: Option<f64>, concurrent: Option<u32>| {
            let unrestricted = RequestCaller::unrestricted(name);
            let limits = CallerLimits { queries, concurrent, ..CallerLimits::default() };
            RequestCaller { limits, ..unrestricted }
        };
        let (fast, busy) = (caller("fast", Some(2.0), None), caller("busy", None, Some(2)));
        let admit = |caller: &RequestCaller| limited.admit_caller(caller, start, &metrics);
        let admitted: Vec<bool> = (0..3).map(|_| admit(&fast).is_ok_and(|turn| turn.is_none())).collect();
        assert_eq!(admitted, [true, true, false]);
        let (first, second) = (admit(&busy).expect("one"), admit(&busy).expect("two"));
        assert!(first.is_some() && second.is_some());
        let refused = admit(&busy).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("'busy' has 2 requests in flight"), "{refused}");
        assert!(admit(&caller("other", None, Some(1))).is_ok());
        drop(first);
        let third = admit(&busy).expect("the first has ended");
        drop((second, third));
        assert!(limited.in_flight.lock().is_empty());
    }

    #[test]
    fn requests_in_flight_of_a_group_are_limited_over_all_clients() {
        let (metrics, now) = (NodeMetrics::new(), Instant::now());
        let settings = Settings::new("unused".into());
        let limited = ClientQuotas::new(&Settings { group_concurrent_max: Some(2), ..settings });
        let enter = |names: &[&str]| {
            let groups = names.iter().map(|name| DocumentGroup::Name((*name).to_owned())).collect();
            limited.admit_scope(&ViewScope::Groups(groups), now, &metrics)
        };
        let (first, second) = (enter(&["ann"]).expect("one"), enter(&["bob", "ann"]).expect("two"));
        assert_eq!((first.len(), second.len()), (1, 2));
        let refused = enter(&["carl", "ann"]).err().map(|error| error.to_string());
        let expected = "group 'ann' has 2 requests in flight, which is the limit of --group-concurrent-max; wait for \
                        their answers";
        assert_eq!(refused.as_deref(), Some(expected));
        drop(second);
        assert!(enter(&["ann"]).is_ok());
        drop(first);
        assert!(limited.in_flight_of_groups.lock().is_empty(), "the refused one has left nothing");
        assert!(
            quotas(None, None)
                .admit_scope(&ViewScope::All, now, &metrics)
                .is_ok_and(|turns| turns.is_empty())
        );
    }

    #[test]
    fn the_id_of_a_query_is_one_of_its_caller() {
        let (metrics, now) = (NodeMetrics::new(), Instant::now());
        let unlimited = quotas(None, None);
        let [ann, bob] = ["ann", "bob"].map(RequestCaller::unrestricted);
        let admit = |caller: &RequestCaller, cost: f64| {
            let claim = QuotaHints { id: "bob".to_owned(), quota: 10.0, cost, dry_run: false };
            unlimited.admit_claim(caller, &claim, now, &metrics).is_ok()
        };
        assert!(admit(&ann, 1e300), "its own allowance is left");
        assert!(!admit(&ann, 1.0) && !admit(&ann, 0.0));
        assert!(admit(&bob, 1.0), "what another caller has used up is not his");
        // Persons behind one proxy have one credential, or none.
        let of_group = |name: &str| {
            let group = DocumentGroup::Name(name.to_owned());
            RequestCaller::unrestricted("proxy").within(group).expect("it has all groups")
        };
        assert!(admit(&of_group("ann"), 1e300));
        assert!(!admit(&of_group("ann"), 1.0) && admit(&of_group("bob"), 1.0), "each group has its own");
    }

    #[test]
    fn what_a_query_says() {
        let full = QuotaHints { id: "a".to_owned(), quota: 2.5, cost: 3.0, dry_run: true };
        assert_eq!(claim("id=a&quota=2.5&cost=3&dryRun=true"), Ok(Some(full)));
        assert_eq!(claim("id=a"), Ok(None));
        assert_eq!(claim("quota=2"), Ok(None));
        assert_eq!(
            claim("id=a&quota=x"),
            Err("parameter 'rate.quota': expected a number from 0, got 'x'".to_owned())
        );
        assert_eq!(
            claim("id=a&quota=1&cost=-1"),
            Err("parameter 'rate.cost': expected a number from 0, got '-1'".to_owned())
        );
    }
}
