//! Copies that differ from their documents are repaired, and those that lag do not answer.

use std::sync::atomic::Ordering;

use millrace_index_placement::{PlacementCommand, PlacementSettingsUpdate};

use super::{PlacedTestCluster, a_copy, run, settled, wait, whole_scan};

/// Changes settings of the cluster.
fn set(cluster: &PlacedTestCluster, settings: &str) {
    let update = PlacementSettingsUpdate::from_json(settings.as_bytes()).expect("settings");
    cluster.lead_with(&[PlacementCommand::Settings(update)]);
}

#[test]
fn a_copy_that_differs_is_found_and_repaired() {
    run(async {
        let (cluster, expected) = settled().await;
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
        let (cluster, expected) = settled().await;
        set(&cluster, r#"{"lag-max":8}"#);
        let (slice, copy, service) = a_copy(&cluster);
        let scan = || whole_scan(slice, &copy, None);
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
        wait("an earlier answer", async || service.scan(scan()).await.is_ok()).await;
        set(&cluster, r#"{"lag-max":8}"#);
        cluster.cut_off.lock().clear();
        wait("an answer again", async || service.scan(scan()).await.is_ok()).await;
        cluster.check(&expected, "after the cut").await;
    });
}
