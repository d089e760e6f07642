//! Vespa's names of figures that have another name here.
//!
//! Most metrics have the name that Vespa gives to the same figure. Vespa has several names for some figures,
//! since its documents pass several processes: these are the further ones.

/// Vespa's further names, each with the name of the figure here.
pub(super) const VESPA_NAMES: [(&str, &str); 11] = [
    ("content.proton.documentdb.documents.active", "content.proton.documentdb.documents.total"),
    ("content.proton.documentdb.documents.ready", "content.proton.documentdb.documents.total"),
    ("vds.datastored.alldisks.docs", "content.proton.documentdb.documents.total"),
    ("vds.datastored.alldisks.bytes", "content.proton.documentdb.disk_usage"),
    ("content.proton.transactionlog.disk_usage", "millrace.store.tail_bytes"),
    ("serverNumOpenConnections", "millrace.connections.open"),
    ("jdisc.thread_pool.rejected_tasks", "jdisc.http.requests.rejected"),
    ("vds.filestor.allthreads.put.count", "httpapi_num_puts"),
    ("vds.filestor.allthreads.update.count", "httpapi_num_updates"),
    ("vds.filestor.allthreads.remove.count", "httpapi_num_removes"),
    ("vds.filestor.allthreads.get.count", "httpapi_num_gets"),
];
