//! Choice between the indexes that lie with a node's documents and placed ones.

use millrace_bucket::BucketId;
use millrace_plan::Plan;

use super::usage::choice;
use super::{IndexChoice, NarrowedScope};
use crate::{Error, Node};

impl Node {
    /// Checks the parameters of a query about indexes. Reads no index.
    ///
    /// # Errors
    /// Those of [`NodeIndexes::check`](super::NodeIndexes::check).
    pub(crate) fn check_indexes(&self, plan: &Plan) -> Result<(), Error> {
        let placed = self.placed_indexes();
        match choice(plan)? {
            IndexChoice::Named(name) if placed.places(&name) => placed.check(&name, plan),
            _ => self.indexes().check(plan).map(drop),
        }
    }

    /// Narrows the scope of a query over all groups to the candidates that an index finds, as
    /// [`NodeIndexes::narrow`](super::NodeIndexes::narrow) says.
    ///
    /// # Errors
    /// Those of [`NodeIndexes::narrow`](super::NodeIndexes::narrow).
    pub(crate) fn narrow(
        &self,
        plan: &Plan,
        within: Option<&[BucketId]>,
        first: Option<usize>,
    ) -> Result<Option<NarrowedScope>, Error> {
        let placed = self.placed_indexes();
        let Some(buckets) = within.filter(|_| placed.places_any()) else {
            return self.indexes().narrow(plan, within, first);
        };
        let documents = || self.indexes().documents_in(within);
        match choice(plan)? {
            IndexChoice::Named(name) if placed.places(&name) => placed.narrow(plan, buckets, documents()),
            IndexChoice::Automatic => match self.indexes().narrow(plan, within, first)? {
                Some(narrowed) => Ok(Some(narrowed)),
                None => placed.narrow(plan, buckets, documents()),
            },
            _ => self.indexes().narrow(plan, within, first),
        }
    }
}
