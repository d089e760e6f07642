//! Deployment: a package is uploaded, prepared (read, checked, compiled), and activated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use millrace_model::SequencePurpose;
use millrace_node::cluster::ClusterDeployment;
use millrace_node::deployment::pack;
use millrace_node::pool::WorkFlow;
use millrace_node::{CompiledApplication, Error, reindexing};
use millrace_schema::change::ChangeEffect;
use millrace_schema::{ApplicationDraft, PackageMistake};
use serde_json::{Value, json};

use super::reindexing::waiting;
use super::sessions::{PreparedSession, UploadSession};
use super::{query_parameters, upload};
use crate::edge::DeclarationObstacle;
use crate::{GatewayState, http};

/// Maximum time for a published package to become active on the node that published it.
const ACTIVATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Path of the application in answers.
const APPLICATION: &str =
    "/application/v2/tenant/default/application/default/environment/prod/region/default/instance/default";

/// `POST …/prepareandactivate`.
pub(super) async fn prepare_and_activate(
    node: Arc<GatewayState>,
    base: &str,
    request: Request,
) -> Result<Response, Error> {
    let received = upload::receive(&node, request).await?;
    let _turn = node.sessions().turn().await?;
    let (draft, _room) = received.unpacked(&node).await?;
    let id = node.deployments().next_generation();
    let base_generation = node.deployments().generation();
    let deployment = compile(&node, move || draft, id).await?;
    let (log, actions) = (log(&node, &deployment), change_actions(&deployment));
    activate_deployment(&node, deployment, base_generation).await?;
    Ok(http::json(
        StatusCode::OK,
        &json!({
            "log": log,
            "tenant": "default",
            "session-id": id.to_string(),
            "url": format!("{base}{APPLICATION}"),
            "message": format!("Session {id} for tenant 'default' prepared and activated."),
            "configChangeActions": actions,
        }),
    ))
}

/// `POST …/session`, with a package or from the active application. Errors in the package are reported when
/// it is prepared.
pub(super) async fn create_session(
    node: Arc<GatewayState>,
    base: &str,
    request: Request,
) -> Result<Response, Error> {
    let parameters = query_parameters(&node, &request)?;
    let (current, received) = match parameters.get("from") {
        Some(_) => (Some(node.deployments().current()?), None),
        None => (None, Some(upload::receive(&node, request).await?)),
    };
    let _turn = node.sessions().turn().await?;
    let (draft, _room) = match received {
        Some(received) => received.unpacked(&node).await.map(|(draft, room)| (Some(draft), Some(room)))?,
        None => (None, None),
    };
    let id = node.deployments().next_generation();
    let at = Arc::clone(&node);
    let create = move || {
        let draft = draft.as_ref().map(|draft| &draft.application);
        let application = draft.or(current.as_ref().map(|deployment| &deployment.application));
        application.map_or(Ok(()), |application| at.sessions().create(id, &application.files))
    };
    node.pool().run(create).await??;
    let session = format!("{base}/application/v2/tenant/default/session/{id}");
    Ok(http::json(
        StatusCode::OK,
        &json!({
            "tenant": "default",
            "session-id": id.to_string(),
            "prepared": format!("{session}/prepared"),
            "content": format!("{session}/content/"),
            "message": format!("Session {id} for tenant 'default' created."),
        }),
    ))
}

/// `PUT …/session/N/prepared`.
pub(super) async fn prepare(node: Arc<GatewayState>, base: &str, id: u64) -> Result<Response, Error> {
    let deployment = make_ready(&node, id, node.deployments().generation()).await?;
    Ok(prepared_answer(base, id, log(&node, &deployment), change_actions(&deployment)))
}

/// Compiles the package of a session, and keeps the result as prepared.
///
/// # Errors
/// The package is invalid; its files have changed meanwhile.
async fn make_ready(
    node: &Arc<GatewayState>,
    id: u64,
    based_on: u64,
) -> Result<Arc<CompiledApplication>, Error> {
    let _turn = node.sessions().turn().await?;
    let files_bytes =
        |session: &mut UploadSession| session.files.sizes().map(|(_, bytes)| bytes).sum::<u64>();
    let bytes = node.sessions().with(id, files_bytes)?;
    let _room = node.budget().package(usize::try_from(bytes).unwrap_or(usize::MAX)).await?;
    let at = Arc::clone(node);
    let read = move || {
        let all = |session: &mut UploadSession| Ok::<_, Error>((session.files.read_all()?, session.revision));
        at.sessions().with(id, all)?
    };
    let (files, revision) = node.pool().run(read).await??;
    let deployment = compile(node, move || ApplicationDraft::from_files(files), id).await?;
    let prepared = PreparedSession { based_on, deployment: Some(Arc::clone(&deployment)) };
    match node.sessions().prepared(id, revision, prepared)? {
        true => Ok(deployment),
        false => Err(Error::Conflict(format!(
            "the files of session {id} have changed while it was prepared; PUT …/session/{id}/prepared again"
        ))),
    }
}

/// Returns the prepared application of a session, and the generation that it is based on. If another session
/// was prepared since, the application is compiled again.
async fn ready(node: &Arc<GatewayState>, id: u64) -> Result<(Arc<CompiledApplication>, u64), Error> {
    let prepared = node.sessions().with(id, |session| session.prepared.clone())?;
    let Some(PreparedSession { based_on, deployment }) = prepared else {
        return Err(Error::BadRequest(format!(
            "session {id} is not prepared; first PUT …/session/{id}/prepared"
        )));
    };
    match deployment {
        Some(deployment) => Ok((deployment, based_on)),
        None => Ok((make_ready(node, id, based_on).await?, based_on)),
    }
}

/// `GET …/session/N/prepared`.
pub(super) async fn prepared(node: &Arc<GatewayState>, base: &str, id: u64) -> Result<Response, Error> {
    let (deployment, _) = ready(node, id).await?;
    Ok(prepared_answer(base, id, log(node, &deployment), change_actions(&deployment)))
}

fn prepared_answer(base: &str, id: u64, log: Value, actions: Value) -> Response {
    http::json(
        StatusCode::OK,
        &json!({
            "tenant": "default",
            "session-id": id.to_string(),
            "activate": format!("{base}/application/v2/tenant/default/session/{id}/active"),
            "message": format!("Session {id} for tenant 'default' prepared."),
            "log": log,
            "configChangeActions": actions,
        }),
    )
}

/// `PUT …/session/N/active`.
pub(super) async fn activate(node: Arc<GatewayState>, base: &str, id: u64) -> Result<Response, Error> {
    let (deployment, based_on) = ready(&node, id).await?;
    activate_deployment(&node, deployment, based_on).await?;
    let at = Arc::clone(&node);
    // The session's files are deleted.
    node.pool().run(move || at.sessions().close(id)).await?;
    Ok(http::json(
        StatusCode::OK,
        &json!({
            "tenant": "default",
            "session-id": id.to_string(),
            "message": format!("Session {id} for tenant 'default' activated."),
            "url": format!("{base}{APPLICATION}"),
        }),
    ))
}

/// `DELETE …/application/default`: deletes the application and all its documents.
///
/// # Errors
/// The node is part of a cluster: its documents belong to all nodes.
pub(super) async fn delete(node: Arc<GatewayState>) -> Result<Response, Error> {
    if !node.cluster().is_alone() {
        return Err(Error::BadRequest(
            "the application of a cluster is not deleted through one of its nodes: deploy a package without the schemas whose \
             documents are to go, with a validation override for schema-removal"
                .to_owned(),
        ));
    }
    let worker = Arc::clone(&node);
    node.pool().run_in(WorkFlow::administration(), move || worker.delete_application()).await??;
    Ok(http::json(StatusCode::OK, &json!({ "message": "Application 'default' was deleted" })))
}

async fn compile(
    node: &Arc<GatewayState>,
    draft: impl FnOnce() -> ApplicationDraft + Send + 'static,
    generation: u64,
) -> Result<Arc<CompiledApplication>, Error> {
    let (current, worker) = (node.deployments().current().ok(), Arc::clone(node));
    let compile = move || {
        let compiled =
            CompiledApplication::compile(draft(), generation, current.as_deref(), worker.models())?;
        match worker.declaration_obstacle(&compiled) {
            Some(obstacle @ DeclarationObstacle::Nodes) => {
                let mistake =
                    PackageMistake::new(None, format!("{obstacle}, or deploy a package without clients"));
                Err(Error::Package(mistake.into()))
            }
            _ => Ok(Arc::new(compiled)),
        }
    };
    // Models are loaded, and possibly downloaded first: on a thread that may block.
    node.models().wait(SequencePurpose::Feed, compile).await?
}

async fn activate_deployment(
    node: &Arc<GatewayState>,
    deployment: Arc<CompiledApplication>,
    based_on: u64,
) -> Result<(), Error> {
    if let Some(member) = node.cluster().member() {
        let packing = Arc::clone(&deployment);
        let archive = node
            .pool()
            .run_in(WorkFlow::administration(), move || pack(&packing.application.files))
            .await??;
        let next = Arc::clone(&deployment);
        let dropped = waiting(node, move |node| reindexing::removed_by(node, &next.application)).await?;
        let publication = ClusterDeployment {
            archive,
            application: &deployment.application,
            generation: deployment.generation,
            based_on,
            dropped,
        };
        let generation = match member.publish(publication).await {
            Ok(generation) => generation,
            Err(error) => {
                let refused = Arc::clone(&deployment);
                let resumed =
                    waiting(node, move |node| reindexing::not_removed(node, &refused.application)).await;
                if let Err(error) = resumed {
                    tracing::warn!(%error, "reindexing may be halted; the next deployment lets it go on");
                }
                return Err(error.into());
            }
        };
        active_here(node, generation).await?;
        // Before the next request can refer to it. If this fails now, it is repeated later.
        let outcome = waiting(node, |node| reindexing::deployed(node, &*node.deployments().current()?)).await;
        if let Err(error) = outcome {
            tracing::debug!(%error, "what the deployment means for reindexing is not known yet");
        }
        return Ok(());
    }
    let worker = Arc::clone(node);
    node.pool()
        .run_in(WorkFlow::administration(), move || worker.activate_alone(deployment, based_on))
        .await?
}

/// Waits until the published application is active on this node, which it reaches like all others.
async fn active_here(node: &GatewayState, generation: u64) -> Result<(), Error> {
    let deadline = Instant::now() + ACTIVATION_TIMEOUT;
    while node.deployments().generation() < generation {
        if Instant::now() >= deadline {
            let reason =
                format!("generation {generation} is published, but not active on this node yet; see its log");
            return Err(Error::Unsettled(reason));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Messages for people about the package.
fn log(node: &GatewayState, deployment: &CompiledApplication) -> Value {
    let now = millrace_env::unix_time().as_millis() as u64;
    let application = &deployment.application;
    let alone = alone_with_replicas(node, application.topology().redundancy);
    let of_clients = node.declaration_warnings(deployment);
    application
        .warnings
        .iter()
        .chain(&alone)
        .chain(&of_clients)
        .map(|warning| json!({ "time": now, "level": "WARNING", "message": warning }))
        .collect()
}

/// Warning for an application that requests more than one replica of each document from a node without a
/// cluster.
fn alone_with_replicas(node: &GatewayState, redundancy: u16) -> Option<String> {
    let asked = redundancy > 1 && node.cluster().is_alone();
    asked.then(|| {
        format!(
            "services.xml asks for {redundancy} replicas of each document; this server is alone and keeps one: start it with --cluster for more"
        )
    })
}

/// Remaining actions for existing documents. A restart is never needed, and data derived from stored values
/// is derived again automatically.
fn change_actions(deployment: &CompiledApplication) -> Value {
    let of = |effect: ChangeEffect| -> Value {
        let actions = deployment.changes.actions.iter().filter(|action| action.effect == effect);
        actions
            .map(|action| {
                let cluster = deployment.application.cluster_of(&action.document_type);
                let message = match effect {
                    ChangeEffect::Reindex => format!(
                        "Document type '{}': Field '{}' changed: {}; documents stay as they are until they are reindexed: \
                         POST {APPLICATION}/reindex to the config port, then deploy",
                        action.document_type, action.field, action.reason
                    ),
                    ChangeEffect::Refeed | ChangeEffect::Derive => action.reason.clone(),
                };
                json!({
                    "documentType": &*action.document_type,
                    "clusterName": cluster.map_or("", |cluster| &*cluster.id),
                    "messages": [message],
                    "services": [],
                })
            })
            .collect()
    };
    json!({ "restart": [], "refeed": of(ChangeEffect::Refeed), "reindex": of(ChangeEffect::Reindex) })
}
