//! Queries without a network: planned once, run over a store as on a node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_column::{Column, ColumnKey};
use millrace_document::DocumentGroup;
use millrace_env::{Disk, ManualClock, unix_time};
use millrace_indexing::DocumentColumns;
use millrace_plan::{Plan, PlanContext, StreamedScope, check_groupings};
use millrace_query::{Query, QueryLimits};
use millrace_ranking::CompiledProfile;
use millrace_schema::{Application, Schema};
use millrace_search::{PassOutcome, PreparedSearch, SearchDeadline, ShareSession};
use millrace_store::{Store, StoreOptions, ViewScope};

use crate::Error;
use crate::application::{self, TYPE};
use crate::measure::TimeSamples;

/// Timeout that no query of a benchmark reaches.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time at which columns of the tail are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailColumns {
    /// Soon after an import.
    Ahead,
    /// Columns are made by the query that asks for them.
    OnRequest,
}

/// A store, and the means to search it.
pub(crate) struct SearchEngine {
    store: Store,
    schema: Arc<Schema>,
}

/// A query, ready to run any number of times.
pub(crate) struct RepeatableQuery {
    search: Arc<PreparedSearch>,
    scope: ViewScope,
}

impl RepeatableQuery {
    /// The search.
    pub fn search(&self) -> Arc<PreparedSearch> {
        Arc::clone(&self.search)
    }
}

impl SearchEngine {
    /// Creates an engine over an open store.
    pub fn over(store: Store) -> Result<Self, Error> {
        Ok(SearchEngine { store, schema: application::schema(&application::application()?)? })
    }

    /// Creates an engine over a new store in a directory. Segments are merged when documents are loaded, and
    /// never while queries are measured.
    pub fn open(directory: &Path, disk: Option<Arc<dyn Disk>>) -> Result<Self, Error> {
        Self::of(&application::application()?, directory, disk)
    }

    /// Like [`SearchEngine::open`], for an application whose only schema is this one, of the type [`TYPE`].
    pub fn with_schema(schema: &str, directory: &Path) -> Result<Self, Error> {
        Self::of(&application::with_schema(schema)?, directory, None)
    }

    /// Creates an engine over a new store that seals nothing by itself: its clock stands still, so that it is
    /// never idle, and its tail has room for a gigabyte. Its cache has room for the columns of all rows.
    pub fn unsealed(directory: &Path, columns: TailColumns) -> Result<Self, Error> {
        let mut options = Self::options(directory);
        options.tail_bytes = 1 << 30;
        options.cache_bytes = 2 << 30;
        options.columns_ahead = columns == TailColumns::Ahead;
        options.clock = Arc::new(ManualClock::new(unix_time().as_micros() as u64));
        Self::with_options(&application::application()?, options)
    }

    fn of(application: &Application, directory: &Path, disk: Option<Arc<dyn Disk>>) -> Result<Self, Error> {
        let mut options = Self::options(directory);
        if let Some(disk) = disk {
            options.disk = disk;
        }
        Self::with_options(application, options)
    }

    fn options(directory: &Path) -> StoreOptions {
        let mut options = StoreOptions::new(directory);
        options.cache_bytes = 512 << 20;
        options.maintenance = false;
        options
    }

    fn with_options(application: &Application, options: StoreOptions) -> Result<Self, Error> {
        let store =
            Store::open(options, Arc::new(DocumentColumns::new(application))).map_err(Error::failed)?;
        Ok(SearchEngine { store, schema: application::schema(application)? })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Plans a query.
    pub fn prepare(&self, parameters: &[(&str, &str)]) -> Result<RepeatableQuery, Error> {
        let parameters: BTreeMap<String, String> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let query = Query::from_parameters(parameters, &QueryLimits::default()).map_err(Error::failed)?;
        let plan =
            Plan::new(Arc::new(query), &self.schema, &PlanContext::standalone()).map_err(Error::failed)?;
        let profile = CompiledProfile::compile(&self.schema, &plan.profile).map_err(Error::failed)?;
        let scope = match &plan.scope {
            StreamedScope::Groups(groups) => ViewScope::Groups(groups.clone()),
            StreamedScope::All { .. } => ViewScope::All,
        };
        check_groupings(std::iter::once(&plan)).map_err(Error::failed)?;
        let search = PreparedSearch::new(Arc::new(plan), Arc::new(profile), Arc::from(TYPE));
        Ok(RepeatableQuery { search: Arc::new(search), scope })
    }

    /// Runs a query over the current contents of the store.
    pub fn run(&self, query: &RepeatableQuery) -> Result<PassOutcome, Error> {
        let view = self.store.view(TYPE, &query.scope).map_err(Error::failed)?;
        query.search.run(&*view, &SearchEngine::deadline()).map_err(Error::failed)
    }

    /// Repeats a query on another thread for as long as `work` takes on this one, and at least once. Returns
    /// the times of the query.
    pub fn run_during(
        &self,
        query: &RepeatableQuery,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<TimeSamples, Error> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let searching = scope.spawn(|| self.run_until(query, &over));
            let worked = work();
            over.store(true, Ordering::Relaxed);
            let failed = |_| Err(Error::failed("the thread that searches ended before its time"));
            let meanwhile = searching.join().unwrap_or_else(failed);
            worked.and(meanwhile)
        })
    }

    fn run_until(&self, query: &RepeatableQuery, over: &AtomicBool) -> Result<TimeSamples, Error> {
        let mut samples = TimeSamples::new();
        while samples.is_empty() || !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            self.run(query)?;
            samples.add(began.elapsed());
        }
        Ok(samples)
    }

    /// Session of the query over a part of the store, as on one node of several.
    pub fn session(&self, query: &RepeatableQuery, scope: &ViewScope) -> Result<ShareSession, Error> {
        let view = self.store.view(TYPE, scope).map_err(Error::failed)?;
        ShareSession::new(vec![(Arc::clone(&query.search), view)], &SearchEngine::deadline())
            .map_err(Error::failed)
    }

    /// Deadline of a benchmark's query, which is never reached.
    pub fn deadline() -> SearchDeadline {
        SearchDeadline::at(Instant::now() + QUERY_TIMEOUT)
    }

    /// Value columns of a field in one group, chunk by chunk, as the store has them in memory.
    pub fn columns(&self, group: u64, field: &str) -> Result<Vec<Column>, Error> {
        let scope = ViewScope::Groups(vec![DocumentGroup::Name(application::group_name(group))]);
        let view = self.store.view(TYPE, &scope).map_err(Error::failed)?;
        let columns =
            view.columns(&ColumnKey::value(field), 0..view.chunks().len()).map_err(Error::failed)?;
        Ok(columns.into_iter().flatten().collect())
    }

    /// Runs a query, and fails if it does not find this number of hits: a query without hits is not a
    /// benchmark.
    pub fn check(&self, query: &RepeatableQuery, hits: usize) -> Result<(), Error> {
        let found = self.run(query)?.result.hits.len();
        if found == hits {
            return Ok(());
        }
        Err(Error::Failed(format!("a query of the benchmark found {found} hits instead of {hits}")))
    }
}
