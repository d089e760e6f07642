//! Copies that differ from their documents are repaired, and those that lag do not answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_index_placement::{PlacedCopy, PlacementSettingsUpdate, PlacementWish, SliceId};

use super::super::message::CopyScan;
use super::super::service::PlacedService;
use super::{DOCUMENT_NODES, PATIENCE, PlacedTestCluster, run, written};

/// Changes settings of the cluster.
fn set(cluster: &PlacedTestCluster, settings: &str) {
    let update = PlacementSettingsUpdate::from_json(settings.as_bytes()).expect("settings");
    cluster.lead_with(&[PlacementWish::Settings(update)]);
}

/// A copy, and the service of its node.
fn a_copy(cluster: &PlacedTestCluster) -> (SliceId, PlacedCopy, Arc<PlacedService>) {
    let (slice, copy) = cluster.copies().swap_remove(0);
    let service = Arc::clone(&cluster.nodes.lock()[&copy.node]).service();
    (slice, copy, service)
}

/// Waits until something holds.
async fn wait(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "it does not come: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn a_copy_that_differs_is_found_and_repaired() {
    run(async {
        let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
        let expected = written(&cluster);
        cluster.settle(3).await;
        let (slice, copy, service) = a_copy(&cluster);
        let kept = service.copies.lock().readable(copy.id, slice).expect("the copy is open").kept;
        let lost = kept.copy.documents(&[], 1).expect("documents").documents.swap_remove(0).document;
        kept.copy.forget(&[lost]).expect("the entry is lost");
        drop(kept);
        let reports = || service.copies.lock().reports().copies;
        assert_eq!(reports()[&copy.id].verified, None, "it is not time yet");
        set(&cluster, r#"{"verify-interval":1}"#);
        wait("the repair", async || service.repaired.load(Ordering::SeqCst) > 0).await;
        cluster.check(&expected, "repaired").await;
        assert_eq!(service.repaired.load(Ordering::SeqCst), 1, "nothing else differed");
        wait("all copies", async || reports().values().all(|report| report.verified.is_some())).await;
    });
}

#[test]
fn a_copy_that_lags_answers_no_scan_that_need_not_be_fresh() {
    run(async {
        let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
        let expected = written(&cluster);
        cluster.settle(3).await;
        set(&cluster, r#"{"lag-max":8}"#);
        let (slice, copy, service) = a_copy(&cluster);
        let scan = || CopyScan {
            slice,
            copy: copy.id,
            ranges: vec![(Vec::new(), None)],
            from: None,
            limit: 10_000,
            count: false,
            patience_ms: None,
        };
        wait("an answer", async || service.scan(scan()).await.is_ok()).await;
        cluster.cut_off.lock().insert(copy.node);
        let mut refusal = String::new();
        wait("a refusal", async || match service.scan(scan()).await {
            Err(error) => {
                refusal = error.to_string();
                true
            }
            Ok(_) => false,
        })
        .await;
        assert!(refusal.contains("'lag-max' accepts 8 s"), "{refusal}");
        let lag = service.copies.lock().reports().copies[&copy.id].lag;
        assert!(lag.is_some_and(|lag| lag >= 8), "{lag:?}");
        set(&cluster, r#"{"lag-max":null}"#);
        wait("an answer of before", async || service.scan(scan()).await.is_ok()).await;
        set(&cluster, r#"{"lag-max":8}"#);
        cluster.cut_off.lock().clear();
        wait("an answer again", async || service.scan(scan()).await.is_ok()).await;
        cluster.check(&expected, "after the cut").await;
    });
}
