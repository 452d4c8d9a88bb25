//! The control plane's end of the broker: takes what nodes say to those who own it, and declarations to the nodes.
//!
//! A statement counts only when two things agree: the account under which the broker let it in, and the node's own
//! signature over its body. It is acknowledged once its owner has written it. Whenever a connection is opened the whole
//! topology is compared with the stores and put right, so that a broker that lost everything is rebuilt; a comparison that
//! fails is tried again and cuts nothing off, since statements and declarations do not need it. Never decides
//! what a statement means, and never keeps one.
//! Called by: [`crate::serve`], which hands in who knows ([`Directory`]) and who writes ([`StatementSink`]).

mod accounts;
mod behind;
mod complaints;
mod downlink;
mod fold;
mod listening;
mod outbox;
mod statement;
mod uplink;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mesh_ids::{NodeName, Position};
use mesh_link::{
    Address, ClientTls, Connection, Endpoint, Frames, InvalidTls, LinkError, Management, NodeAccount,
    Session, Supervisor, SupervisorState, TokenAccount, Topology,
};
use mesh_seal::VerifyingKey;
use mesh_wire::{Alive, Enrol, EnrolAnswer, Report};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::accounts::Accounts;
use self::listening::Listening;
use self::outbox::Outbox;
use self::uplink::Uplink;
use crate::declare::Publish;
use crate::settings::BrokerSettings;

pub use self::complaints::Counts;

/// How often the whole topology is compared with the stores. Five requests where nothing differs.
const TOPOLOGY_PERIOD: Duration = Duration::from_mins(1);
/// How long until a comparison that failed is tried again; twice as long each time, up to the longest.
const FIRST_AGAIN: Duration = Duration::from_secs(1);
const LONGEST_AGAIN: Duration = Duration::from_secs(10);

/// Who owns the answer cannot give it now; it is asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// A node's newest declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// Where it stands.
    pub position: Position,
    /// As it travels: the JSON of a signed declaration.
    pub frame: Arc<[u8]>,
}

/// Who knows the nodes: identity.
pub trait Directory: Send + Sync + 'static {
    /// Every node that has joined and was not removed.
    fn nodes(&self) -> impl Future<Output = Result<Vec<NodeAccount>, Unavailable>> + Send;
    /// Every token that a machine may still come with: unused and not expired, or used by a node that has not been
    /// heard yet, whose machine may have to ask again.
    fn tokens(&self) -> impl Future<Output = Result<Vec<TokenAccount>, Unavailable>> + Send;
    /// One node's account; none where it is no node.
    fn account(
        &self,
        node: &NodeName,
    ) -> impl Future<Output = Result<Option<NodeAccount>, Unavailable>> + Send;
    /// The key with which a node signs; none where it is no node.
    fn key(&self, node: &NodeName) -> impl Future<Output = Result<Option<VerifyingKey>, Unavailable>> + Send;
    /// The newest declaration issued for a node.
    fn newest(&self, node: &NodeName) -> impl Future<Output = Result<Option<Newest>, Unavailable>> + Send;
}

/// What came of a request to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// The answer, signed. The same request gets the same answer: it may arrive twice.
    pub answer: EnrolAnswer,
    /// The account to make before the machine is told of it; none where it was refused.
    pub node: Option<NodeAccount>,
}

/// Who writes what nodes say: inventory and identity. Each call returns once it is written.
pub trait StatementSink: Send + Sync + 'static {
    /// These nodes were heard; one entry a node.
    fn alive(&self, heard: Vec<Alive>) -> impl Future<Output = Result<(), Unavailable>> + Send;
    /// A node reported. Reports may arrive twice and out of order (`boot.count` tells).
    fn report(&self, report: Report) -> impl Future<Output = Result<(), Unavailable>> + Send;
    /// A machine with the account of this token asks to join. None: not worth an answer.
    fn enrol(
        &self,
        token_id: &str,
        enrol: Enrol,
    ) -> impl Future<Output = Result<Option<Enrolled>, Unavailable>> + Send;
}

/// Why the link cannot be set up at all.
#[derive(Debug, thiserror::Error)]
pub enum LinkSetupError {
    /// An address of the settings is none.
    #[error("read the broker's address")]
    Address(#[from] mesh_link::InvalidAddress),
    /// The mesh's CA cannot be trusted as it stands.
    #[error("trust the mesh's CA for the broker")]
    Tls(#[from] InvalidTls),
}

/// The link, ready to run.
pub struct Link<D, S> {
    supervisor: Supervisor,
    session: ControlSession<D, S>,
}

/// What the rest of the control plane does with the link while it runs. Cheap to clone.
pub struct LinkHandle<D> {
    accounts: Arc<Accounts<D>>,
    outbox: Arc<Outbox>,
    counts: Arc<Counts>,
    listening: Arc<Listening>,
    state: watch::Receiver<SupervisorState>,
}

impl<D> Clone for LinkHandle<D> {
    fn clone(&self) -> Self {
        Self {
            accounts: Arc::clone(&self.accounts),
            outbox: Arc::clone(&self.outbox),
            counts: Arc::clone(&self.counts),
            listening: Arc::clone(&self.listening),
            state: self.state.clone(),
        }
    }
}

struct ControlSession<D, S> {
    accounts: Arc<Accounts<D>>,
    outbox: Arc<Outbox>,
    uplink: Uplink<D, S>,
    period: Duration,
    /// Whether a comparison of this session was carried through.
    ensured: AtomicBool,
    /// How often listening had begun when this session did.
    begun: u64,
}

impl<D: Directory, S: StatementSink> Link<D, S> {
    /// Of this broker, trusting the mesh's CA alone.
    pub fn new(
        broker: &BrokerSettings,
        ca_pem: &str,
        directory: D,
        sink: S,
    ) -> Result<(Self, LinkHandle<D>), LinkSetupError> {
        let tls = ClientTls::trusting(ca_pem, &broker.server_name)?;
        let management: Address =
            broker.management.trim_start_matches("https://").trim_end_matches('/').parse()?;
        let management = Management::new(vec![management], tls.clone(), &broker.account, &broker.password);
        let topology = Topology::new(management, &broker.vhost, &broker.account);
        let endpoint = Endpoint {
            addresses: vec![broker.address.parse()?],
            tls,
            vhost: broker.vhost.clone(),
            account: broker.account.clone(),
            password: broker.password.clone(),
            name: "mesh-control".to_owned(),
            frames: Frames::AsLargeAsTheBroker,
        };
        let supervisor = Supervisor::new(endpoint, u64::from_le_bytes(mesh_seal::random_bytes()));
        let (outbox, counts, directory) =
            (Arc::new(Outbox::default()), Arc::new(Counts::default()), Arc::new(directory));
        let accounts = Arc::new(Accounts::new(topology, Arc::clone(&directory)));
        let listening = Arc::new(Listening::default());
        let handle = LinkHandle {
            accounts: Arc::clone(&accounts),
            outbox: Arc::clone(&outbox),
            counts: Arc::clone(&counts),
            listening: Arc::clone(&listening),
            state: supervisor.state(),
        };
        let uplink = Uplink {
            directory,
            sink,
            accounts: Arc::clone(&accounts),
            outbox: Arc::clone(&outbox),
            counts,
            listening,
        };
        let (period, ensured) = (TOPOLOGY_PERIOD, AtomicBool::new(false));
        let session = ControlSession { accounts, outbox, uplink, period, ensured, begun: 0 };
        Ok((Self { supervisor, session }, handle))
    }

    /// The same, comparing the topology with the stores so often; once a minute where nothing is said.
    #[must_use]
    pub fn comparing_every(mut self, period: Duration) -> Self {
        self.session.period = period;
        self
    }

    /// Runs until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            never = self.supervisor.run(&mut self.session) => never,
        }
    }
}

impl<D: Directory, S: StatementSink> Session for ControlSession<D, S> {
    async fn run(&mut self, connection: &Connection) -> LinkError {
        // The control plane's own queues stand where the last session made sure of them, or consumed from them.
        let begun = self.uplink.listening.begun();
        let stands = self.ensured.swap(false, Ordering::Relaxed) || begun > self.begun;
        self.begun = begun;
        let stands = watch::Sender::new(stands);
        let outcome = {
            // The consumers need their queues, and a queue that is not there costs the whole connection.
            let work = async {
                stood(&stands).await;
                tokio::select! {
                    outcome = self.uplink.take_alive(connection) => outcome,
                    outcome = self.uplink.take_reports(connection) => outcome,
                    outcome = self.uplink.take_requests(connection) => outcome,
                    outcome = downlink::publish(connection, &self.outbox, &self.accounts) => outcome,
                }
            };
            tokio::select! {
                never = self.keep_topology(&stands) => match never {},
                outcome = work => outcome,
            }
        };
        match outcome {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }
}

/// Waits until the control plane's own queues stand.
async fn stood(stands: &watch::Sender<bool>) {
    // The sender is held by the caller, so that it does not end before.
    let _ = stands.subscribe().wait_for(|stands| *stands).await;
}

impl<D: Directory, S: StatementSink> ControlSession<D, S> {
    /// Puts right what was changed behind our back, and takes away what was removed or expired in the stores. Where that
    /// fails, it is tried again: the management interface or a store may be away for a moment while everything else works.
    async fn keep_topology(&self, stands: &watch::Sender<bool>) -> Infallible {
        let mut again = FIRST_AGAIN;
        loop {
            match self.accounts.ensure_all().await {
                Ok(()) => {
                    self.ensured.store(true, Ordering::Relaxed);
                    stands.send_replace(true);
                    again = FIRST_AGAIN;
                    tokio::time::sleep(self.period).await;
                }
                Err(error) => {
                    if self.uplink.counts.may_say("the topology") {
                        tracing::warn!(%error, "the broker's topology could not be compared with the stores; it is tried again");
                    }
                    tokio::time::sleep(again).await;
                    again = (again * 2).min(LONGEST_AGAIN);
                }
            }
        }
    }
}

impl<D: Directory> LinkHandle<D> {
    /// Makes the account of a new join token. Should it fail, the next comparison with the stores makes it.
    pub async fn invite(&self, token_id: &str) -> Result<(), Unavailable> {
        if self.accounts.ensure_token(token_id).await.map_err(unavailable)? {
            Ok(())
        } else {
            Err(Unavailable("the token can no longer be used".to_owned()))
        }
    }

    /// Takes the account of a join token away: it was withdrawn, has expired, or its node was heard.
    pub async fn withdraw(&self, token_id: &str) -> Result<(), Unavailable> {
        self.accounts.remove_token(token_id).await.map_err(unavailable)
    }

    /// Throws a removed node out. What is on its way to it is dropped.
    pub async fn remove_node(&self, node: &NodeName) -> Result<(), Unavailable> {
        self.outbox.forget(node);
        self.accounts.remove_node(node).await.map_err(unavailable)
    }

    /// How the connection to the broker stands, now and later.
    pub fn state(&self) -> watch::Receiver<SupervisorState> {
        self.state.clone()
    }

    /// Which listening to the heartbeats goes on, counted from the start; none while nobody listens. Nobody is silent then.
    pub fn listening(&self) -> Option<u64> {
        self.listening.current()
    }

    /// Declarations that no broker has taken yet.
    pub fn waiting(&self) -> usize {
        self.outbox.waiting()
    }

    /// How much was taken and how much dropped since the start.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl<D: Directory> Publish for LinkHandle<D> {
    fn publish(&self, node: &NodeName, frame: Arc<[u8]>) {
        self.outbox.put(node, frame);
    }
}

fn unavailable(error: impl std::fmt::Display) -> Unavailable {
    Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use mesh_link::names;

    #[test]
    fn the_wire_and_the_link_call_things_by_the_same_names() {
        assert_eq!(names::REPORT_KEY, mesh_wire::KEY_REPORT);
        assert_eq!(names::ALIVE_KEY, mesh_wire::KEY_ALIVE);
        assert_eq!(names::SIGNATURE_HEADER, mesh_wire::SIGNATURE_HEADER);
        assert_eq!(names::ENROL_EXCHANGE, mesh_wire::ENROL_EXCHANGE);
        assert_eq!(names::ENROL_KEY, mesh_wire::ENROL_KEY);
        assert_eq!(names::token_account("t"), mesh_wire::token_account("t"));
        assert_eq!(names::reply_queue("t"), mesh_wire::reply_queue("t"));
    }
}
