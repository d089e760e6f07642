use std::ops::ControlFlow;

use millrace_document::{Document, DocumentId, Timestamp};

use crate::read::get;
use crate::read::rows::VisitedRow;
use crate::read::visiting;
use crate::{Error, Store, StoreVisit, VisitEnd, VisitPage};

impl Store {
    /// Does what [`Store::get`] does, but reads only these fields of the document, and may leave out others;
    /// `None`: all.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn get_fields(
        &self,
        id: &DocumentId,
        fields: Option<&[String]>,
    ) -> Result<Option<(Document, Timestamp)>, Error> {
        self.inner.shared.check_open()?;
        get::get(&self.inner.shared, id, fields)
    }

    /// Returns the next page of a visit.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; the continuation is invalid.
    pub fn visit(&self, visit: &StoreVisit) -> Result<VisitPage, Error> {
        self.inner.shared.check_open()?;
        visiting::visit(&self.inner.shared, visit)
    }

    /// Does the same, and calls `each` with the versions of the page in place of returning them: what it does
    /// not ask of them costs nothing. It can end the page after a version. For pages of many thousands.
    ///
    /// # Errors
    /// Those of [`Store::visit`], and that of `each`, which ends the page.
    pub fn visit_rows(
        &self,
        visit: &StoreVisit,
        each: &mut dyn FnMut(&VisitedRow<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<VisitEnd, Error> {
        self.inner.shared.check_open()?;
        visiting::visit_rows(&self.inner.shared, visit, each)
    }

    /// [`Store::visit_rows`] with columns that are in the cache and stay there, for passes that are repeated.
    ///
    /// # Errors
    /// Those of [`Store::visit_rows`].
    pub fn visit_cached_rows(
        &self,
        visit: &StoreVisit,
        each: &mut dyn FnMut(&VisitedRow<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<VisitEnd, Error> {
        self.inner.shared.check_open()?;
        visiting::visit_cached_rows(&self.inner.shared, visit, each)
    }
}
