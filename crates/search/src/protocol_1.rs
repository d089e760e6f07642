//! Protocol 1: replies about shares of queries whose notes are left out if there are none.
//!
//! Nothing else depends on this module but the choice of the protocol: it goes when protocol 1 does.

use millrace_matching::TermStatistics;
use millrace_result::ResultHit;
use serde::{Deserialize, Serialize};

use crate::share::SchemaShare;
use crate::{NodeShare, ShareReply};

/// A reply, as nodes of protocol 1 send it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FirstShareReply(#[serde(with = "FirstReplyForm")] pub ShareReply);

/// Form of a [`ShareReply`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "ShareReply")]
enum FirstReplyForm {
    Statistics(Vec<TermStatistics>),
    Share(#[serde(with = "FirstShareForm")] NodeShare),
    Scores(Vec<Option<Vec<f64>>>),
    Numbers(Vec<Option<Vec<Vec<f64>>>>),
    Hits(Vec<Vec<ResultHit>>),
    Refused {
        is_overload: bool,
        message: String,
    },
    #[serde(skip)]
    GroupHits(Vec<Vec<ResultHit>>),
}

/// Form of a [`NodeShare`]. The first versions do not know the notes, and pass over them.
#[derive(Serialize, Deserialize)]
#[serde(remote = "NodeShare")]
struct FirstShareForm {
    schemas: Vec<SchemaShare>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    trace: Vec<String>,
}
