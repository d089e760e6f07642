//! A node that missed removals which the others have forgotten is not admitted with its data.

use std::time::Duration;

use millrace_coordination::KeyOperation;
use millrace_membership::{ClusterMembership, Error, PackagePublication};

use crate::support::{MemberCluster, STEP_TIMEOUT, configuration, sees};

/// Microseconds since 1970 at this number of days ago.
fn days_ago(days: u64) -> u64 {
    let now = millrace_env::unix_time();
    now.as_micros() as u64 - days * 86_400_000_000
}

/// Result of joining for a node that took part last at this time, in a cluster that was active in these spans
/// of days ago, and remembers removals for two weeks.
async fn join(took_part: u64, active: &[(u64, u64)], is_empty: bool) -> Result<ClusterMembership, Error> {
    let cluster = MemberCluster::new();
    let spans: Vec<_> = active.iter().map(|(from, to)| (days_ago(*from), days_ago(*to))).collect();
    let record = serde_json::to_vec(&spans).expect("JSON");
    cluster.coordination.apply(KeyOperation::put("/millrace/activity", record)).await.expect("it is put");
    let mut settings = cluster.settings("a");
    settings.removals_kept = Some(Duration::from_secs(14 * 86_400));
    settings.is_empty = is_empty;
    std::fs::create_dir_all(&settings.directory).expect("a directory");
    let file = settings.directory.join("took-part");
    std::fs::write(file, days_ago(took_part).to_string()).expect("it is written");
    ClusterMembership::join(cluster.coordination.clone(), settings).await
}

#[tokio::test]
async fn a_node_that_was_away_longer_than_removals_are_remembered_is_refused() {
    for (took_part, active) in [(20, &[(30, 0)][..]), (15, &[(30, 0)]), (40, &[(60, 39), (38, 30)])] {
        let refused = join(took_part, active, false).await.err().map(|error| error.to_string());
        let refused = refused.unwrap_or_default();
        let expected = format!("last took part in the cluster {} hours ago", took_part * 24);
        assert!(refused.contains(&expected) && refused.contains("empty data directory"), "{refused}");
    }
}

#[tokio::test]
async fn a_node_that_missed_nothing_that_was_forgotten_joins() {
    // Absent for less time; all were stopped together, or restored together; it has no data; an earlier
    // version left no record.
    let cases = [
        (13, &[(30, 0)][..], false),
        (20, &[(30, 20), (1, 0)], false),
        (20, &[(30, 20)], false),
        (20, &[(30, 0)], true),
        (20, &[], false),
    ];
    for (took_part, active, is_empty) in cases {
        assert!(join(took_part, active, is_empty).await.is_ok(), "{took_part} {active:?} {is_empty}");
    }
}

#[tokio::test]
async fn the_leader_records_that_the_cluster_is_active() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a"])))
        .await
        .expect("it is published");
    sees(&a, |snapshot| snapshot.leader.is_some()).await;
    let recorded = async {
        loop {
            let entry = cluster.coordination.get("/millrace/activity").await.expect("it answers");
            if let Some(entry) = entry {
                return serde_json::from_slice::<Vec<(u64, u64)>>(&entry.value).expect("JSON");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let spans = tokio::time::timeout(STEP_TIMEOUT, recorded).await.expect("it is recorded");
    assert!(spans.len() == 1 && spans[0].0 > days_ago(1), "{spans:?}");
}
