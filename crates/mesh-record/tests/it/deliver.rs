//! Delivery to a reader: once, in order, without one reader minding another, and never past what it cannot apply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mesh_record::{Delivery, DeliveryState, DeliveryStatus, Reader};
use mesh_testkit::{LogWatch, wait_for};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::append::append_raw;
use super::*;

pub(crate) struct Running {
    pub(crate) status: watch::Receiver<DeliveryStatus>,
    pub(crate) task: JoinHandle<()>,
    pub(crate) stop: CancellationToken,
}

pub(crate) fn run(reader: Reader<Happened>, into: &Store, reaction: impl Reaction<Happened>) -> Running {
    let delivery = Delivery::new(reader, into.clone(), reaction).saying_every(Duration::from_millis(100));
    let (status, stop) = (delivery.status(), CancellationToken::new());
    Running { status, task: tokio::spawn(delivery.run(stop.clone())), stop }
}

fn one_to(last: i64) -> Vec<i64> {
    (1..=last).collect()
}

async fn stopped(running: &Running) -> String {
    wait_for("the delivery to stop", PATIENCE, async || match &running.status.borrow().state {
        DeliveryState::Stopped { why } => Ok(why.clone()),
        other => Err(format!("{other:?}")),
    })
    .await
}

#[tokio::test]
async fn what_is_there_and_what_comes_is_delivered_once_and_in_order() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    owner.append(150).await;
    let running = run(owner.record.reader(), &into, Project);
    wait_for("what was there", PATIENCE, async || seen(&into).await.len() == 150).await;
    owner.append(3).await;
    wait_for("what came", PATIENCE, async || seen(&into).await.len() == 153).await;
    assert_eq!(seen(&into).await, one_to(153));
    assert_eq!(cursor(&into).await, 153);
    wait_for("the status to say so", PATIENCE, async || {
        let status = running.status.borrow();
        [
            ("position", status.position == position(153)),
            ("following", status.state == DeliveryState::Following),
            ("names", (status.owner, status.reader) == (INVENTORY, IDENTITY)),
        ]
    })
    .await;

    // A delivery started anew goes on where the cursor stands.
    running.stop.cancel();
    running.task.await.unwrap();
    owner.append(2).await;
    let _again = run(owner.record.reader(), &into, Project);
    wait_for("what came meanwhile", PATIENCE, async || seen(&into).await.len() == 155).await;
    assert_eq!(seen(&into).await, one_to(155));
}

/// The period is two seconds, so what arrives sooner was woken for.
#[tokio::test]
async fn a_commit_wakes_the_reader_at_once_and_a_plain_commit_is_found_by_period() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    let running = run(owner.record.reader(), &into, Project);
    for count in 1..=5 {
        wait_for("the reader to wait for more", PATIENCE, async || {
            running.status.borrow().state == DeliveryState::Following
        })
        .await;
        owner.append(1).await;
        wait_for("the wake-up", Duration::from_secs(1), async || seen(&into).await.len() == count).await;
    }
    let mut transaction = owner.store.begin().await.unwrap();
    owner.record.append(&mut transaction, at(1), &joined(6)).await.unwrap();
    transaction.commit().await.unwrap();
    wait_for("the period", PATIENCE, async || seen(&into).await.len() == 6).await;
}

#[tokio::test]
async fn two_deliveries_to_one_reader_still_apply_everything_once() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    let _both = [run(owner.record.reader(), &into, Project), run(owner.record.reader(), &into, Project)];
    owner.append(120).await;
    wait_for("all of them", PATIENCE, async || cursor(&into).await == 120).await;
    assert_eq!(seen(&into).await, one_to(120));
}

/// A reaction that never answers.
struct Hang;

impl Reaction<Happened> for Hang {
    async fn react(&self, _: &mut Transaction, _: &Entry<Happened>) -> Result<(), ReactError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_reader_that_hangs_or_fails_blocks_no_other_and_not_the_owner() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    let slow = reader_store(&postgres, OBSERVABILITY).await;
    let mut log = LogWatch::start();
    log.announce("a reader of the record stopped and will not go on");
    let poisoned = reader_store(&postgres, Context::new("delivery")).await;
    // More of them than the owner has connections: none may be held while a reader works.
    let _hanging: Vec<Running> = (0..12).map(|_| run(owner.record.reader(), &slow, Hang)).collect();
    let failing = run(owner.record.reader(), &poisoned, Refuse { at: 1, tried: Arc::default() });
    let _running = run(owner.record.reader(), &into, Project);
    owner.append(20).await;
    wait_for("the other reader", PATIENCE, async || seen(&into).await.len() == 20).await;
    stopped(&failing).await;
    owner.append(1).await;
    wait_for("the other reader", PATIENCE, async || seen(&into).await.len() == 21).await;
    assert_eq!(seen(&slow).await, [0_i64; 0]);
}

/// Refuses one position for good.
struct Refuse {
    at: u64,
    tried: Arc<AtomicU32>,
}

impl Reaction<Happened> for Refuse {
    async fn react(&self, transaction: &mut Transaction, entry: &Entry<Happened>) -> Result<(), ReactError> {
        project(transaction, entry).await?;
        if entry.position.get() == self.at {
            self.tried.fetch_add(1, Ordering::SeqCst);
            return Err(ReactError::Poison("the node was never invited".to_owned()));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_poison_event_stops_its_reader_loudly_and_is_not_skipped() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    owner.append(10).await;
    let mut log = LogWatch::start();
    log.announce("a reader of the record stopped and will not go on");
    let tried = Arc::<AtomicU32>::default();
    let running = run(owner.record.reader(), &into, Refuse { at: 4, tried: Arc::clone(&tried) });
    let why = stopped(&running).await;
    assert!(why.contains("the event \"node-joined\" at 4"), "{why}");
    assert!(why.contains("the node was never invited"), "{why}");
    assert!(log.has(&why), "{:?}", log.lines());
    assert!(log.has("cursor=3"), "{:?}", log.lines());
    wait_for("it to be said again", PATIENCE, async || {
        log.lines().iter().filter(|line| line.contains("stopped and will not go on")).count() >= 3
    })
    .await;
    assert!(!running.task.is_finished(), "whoever runs it would take the others down");
    // Those before it are applied, it and those after it are not.
    assert_eq!((seen(&into).await, cursor(&into).await), (one_to(3), 3));
    // Once in the batch and once alone.
    assert_eq!(tried.load(Ordering::SeqCst), 2);

    // A version that can apply it goes on from there.
    running.stop.cancel();
    running.task.await.unwrap();
    let _again = run(owner.record.reader(), &into, Project);
    wait_for("the rest", PATIENCE, async || seen(&into).await == one_to(10)).await;
}

/// Writes what its own table refuses, or panics.
struct Break(&'static str);

impl Reaction<Happened> for Break {
    async fn react(&self, transaction: &mut Transaction, _: &Entry<Happened>) -> Result<(), ReactError> {
        assert_ne!(self.0, "", "nothing to run");
        sqlx::query(self.0).execute(&mut **transaction).await?;
        Ok(())
    }
}

#[tokio::test]
async fn an_error_that_would_repeat_for_ever_stops_and_so_does_a_panic() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    owner.append(1).await;
    for (sql, words) in [
        ("INSERT INTO seen (position, node) VALUES (1, NULL)", "violates not-null constraint"),
        ("INSERT INTO missing VALUES (1)", "\"missing\" does not exist"),
        ("", "the reaction panicked"),
    ] {
        let mut log = LogWatch::start();
        log.announce("a reader of the record stopped and will not go on");
        let running = run(owner.record.reader(), &into, Break(sql));
        let why = stopped(&running).await;
        assert!(why.contains(words), "{why}");
        assert_eq!(cursor(&into).await, 0);
    }
}

#[tokio::test]
async fn an_event_nobody_understands_stops_the_reader_after_those_before_it() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    owner.append(2).await;
    append_raw(&owner, 3, "node-flew").await;
    append_raw(&owner, 4, "node-joined").await;
    let mut log = LogWatch::start();
    log.announce("a reader of the record stopped and will not go on");
    let why = stopped(&run(owner.record.reader(), &into, Project)).await;
    assert!(why.contains("at 3") && why.contains("node-flew"), "{why}");
    assert_eq!(seen(&into).await, [1, 2]);
}

#[tokio::test]
async fn a_cursor_beyond_the_end_stops_instead_of_missing_what_comes() {
    let postgres = Postgres::start().await;
    let (owner, into) = (Owner::on(&postgres).await, reader_store(&postgres, IDENTITY).await);
    owner.append(2).await;
    sqlx::raw_sql("INSERT INTO cursors VALUES ('inventory', 5)").execute(into.pool()).await.unwrap();
    let mut log = LogWatch::start();
    log.announce("a reader of the record stopped and will not go on");
    let why = stopped(&run(owner.record.reader(), &into, Project)).await;
    assert!(why.contains("after 5: it ends at 2") && why.contains("from the same backup"), "{why}");
}
