//! The configuration of a cluster as text.

use millrace_bucket::ClusterConfiguration;

/// Other versions read and write the text, and it is kept in coordination.
#[test]
fn a_configuration_is_written_as_ever() {
    let kept = concat!(
        r#"{"redundancy":2,"bits":10,"nodes":{"0":{"name":"a","capacity":1.5,"group":"east"},"1":{"name":"b","#,
        r#""capacity":1.0,"group":"west"}},"layout":{"groups":{"partitions":"1|*","groups":[[0,{"nodes":[0]}],"#,
        r#"[1,{"nodes":[1]}]]}},"group_nodes_min":0.5,"nodes_min":0.25,"transition":{"secs":30,"nanos":5},"#,
        r#""stable":null,"crashes_max":3}"#
    );
    let read: ClusterConfiguration = serde_json::from_str(kept).expect("it is read");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), kept);
}
