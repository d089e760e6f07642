//! Slices of a request: its parameters, its continuations, and its form between nodes.
//!
//! Versions up to 0.1.0 sliced by groups instead of ids. Continuations of their slices, and requests from
//! their nodes, would lead to other documents. So both have another form since, and the old one is refused.

use millrace_node::Error;
use millrace_node::cluster::ForwardKind;
use millrace_store::VisitSlice;

use crate::http::{RequestParameters, form_encode};

/// Number of slices in requests of clients.
const SLICES: &str = "slices";

/// Number of slices by ids in requests between nodes. A node of an earlier version ignores it, and refuses
/// `sliceId` without [`SLICES`].
const ID_SLICES: &str = "idSlices";

/// Parses the slice of a request: `slices` and `sliceId`.
pub(super) fn slice(parameters: &RequestParameters, stage: &ForwardKind) -> Result<VisitSlice, Error> {
    let name = match stage {
        ForwardKind::Client => SLICES,
        _ if parameters.get(SLICES).is_some() => {
            return Err(Error::parameter(
                SLICES,
                "the node that was asked runs an earlier version, which slices by groups instead of ids: upgrade \
                 it, or ask a node that is upgraded",
            ));
        }
        _ => ID_SLICES,
    };
    let slices = parameters.number(name, 1, u64::from(u32::MAX))?;
    let number = parameters.number("sliceId", 0, u64::from(u32::MAX))?;
    match (slices, number) {
        (None, None) => Ok(VisitSlice::WHOLE),
        (Some(slices), Some(number)) => VisitSlice::new(number as u32, slices as u32).ok_or_else(|| {
            let reason = format!("expected less than slices, which is {slices}; got {number}");
            Error::parameter("sliceId", reason)
        }),
        (Some(_), None) => Err(Error::parameter("sliceId", "must be set where slices is")),
        (None, Some(_)) => Err(Error::parameter(SLICES, "must be set where sliceId is")),
    }
}

/// Renames the slices in the target of a client's request, for other nodes. Other targets stay as they are.
pub(in crate::document_api) fn forwarded(target: String, parameters: &RequestParameters) -> String {
    let is_sliced = |name: &str| name == SLICES || name == ID_SLICES;
    if !parameters.iter().any(|(name, _)| is_sliced(name)) {
        return target;
    }
    let path = target.split_once('?').map_or(target.as_str(), |(path, _)| path);
    let kept = parameters.iter().filter(|(name, _)| *name != ID_SLICES);
    let renamed = kept.map(|(name, value)| (if name == SLICES { ID_SLICES } else { name }, value));
    format!("{path}?{}", form_encode(renamed))
}

/// Continuation of a slice at a position: `POSITION~0of4`. Without slices it is the position.
pub(super) fn continuation(position: String, slice: VisitSlice) -> String {
    if slice.is_whole() { position } else { format!("{position}~{slice}") }
}

/// Position in a continuation.
///
/// # Errors
/// The continuation is not one of this slice: documents would be missing in the rest.
pub(super) fn position(continuation: &str, slice: VisitSlice) -> Result<&str, Error> {
    let (position, of) = match continuation.rsplit_once('~') {
        Some((position, of)) => (position, Some(of)),
        None => (continuation, None),
    };
    let cure = "begin without a continuation, or send the one that this slice has returned";
    let reason = match of {
        None if slice.is_whole() => return Ok(position),
        Some(of) if !slice.is_whole() && slice.to_string() == of => return Ok(position),
        None => format!(
            "'{continuation}' is of a request without slices, or of an earlier version, whose slices had \
             other documents, but the request is for slice {slice}: {cure}"
        ),
        Some(of) if slice.is_whole() => {
            format!("'{continuation}' is of slice {of}, but the request is for all documents: {cure}")
        }
        Some(of) => {
            format!("'{continuation}' is of slice {of}, but the request is for slice {slice}: {cure}")
        }
    };
    Err(Error::parameter("continuation", reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(text: &str) -> RequestParameters {
        RequestParameters::parse(text, 100).expect("few parameters")
    }

    #[test]
    fn a_continuation_is_for_its_own_slice_alone() {
        let slice = |number, count| VisitSlice::new(number, count).expect("one of them");
        let slices = [VisitSlice::WHOLE, slice(0, 4), slice(1, 4), slice(0, 5), slice(4, 45)];
        for given in slices {
            for of_place in ["g0.00ff", "2.", "33-5.u1.00", ""] {
                let token = continuation(of_place.to_owned(), given);
                for asked in slices {
                    let found = position(&token, asked);
                    match given == asked {
                        true => assert_eq!(found.expect("its own"), of_place),
                        false => assert!(found.is_err(), "{token} for {asked}"),
                    }
                }
            }
        }
        // Of a version that did not name the slice.
        let refused = position("g0.00ff", slice(0, 4)).expect_err("other documents were before it").message();
        assert!(refused.contains("earlier version") && refused.contains("0of4"), "{refused}");
    }

    #[test]
    fn nodes_and_clients_name_slices_apart() {
        let client = parameters("slices=4&sliceId=3&idSlices=9&selection=a%20%26%20b");
        let target = forwarded("/document/v1/?whatever".to_owned(), &client);
        assert_eq!(target, "/document/v1/?idSlices=4&sliceId=3&selection=a%20%26%20b");
        let forwarded_parameters = parameters(target.split_once('?').expect("parameters").1);
        let asked = slice(&client, &ForwardKind::Client).expect("a slice");
        assert_eq!(slice(&forwarded_parameters, &ForwardKind::Share).expect("a slice"), asked);
        let unsliced = "/document/v1/?cluster=notes&selection=a%20b";
        assert_eq!(forwarded(unsliced.to_owned(), &parameters("cluster=notes&selection=a%20b")), unsliced);
        // What a node of an earlier version sends, and what it says to this one's requests.
        let refused = slice(&client, &ForwardKind::Share).expect_err("another rule").message();
        assert!(refused.contains("earlier version"), "{refused}");
        let refused = slice(&forwarded_parameters, &ForwardKind::Client).expect_err("no slices").message();
        assert!(refused.contains("must be set where sliceId is"), "{refused}");
    }
}
