//! Owner's and reader's servers crash at moments drawn from a seed: every committed entry is applied once, in order.

use mesh_record::DeliveryState;
use mesh_testkit::wait_for;

use super::deliver::run;
use super::*;

/// Each context on a server of its own, so that either can be away while the other is not.
#[tokio::test]
async fn the_projection_is_exact_whatever_crashes() {
    let crashes = if std::env::var_os("MESH_LONG").is_some() { 200 } else { 10 };
    let (mut owners, mut readers) = (Postgres::start().await, Postgres::start().await);
    let owner = Owner::on(&owners).await;
    let into = reader_store(&readers, IDENTITY).await;
    let running = run(owner.record.reader(), &into, Project);

    let mut chance = Chance(7);
    let mut acknowledged = 0;
    for crash in 0..crashes {
        for _ in 0..chance.below(30) {
            let transaction = begin_append(&owner).await;
            acknowledged += u64::from(owner.record.commit(transaction).await.is_ok());
            if chance.below(3) == 0 {
                tokio::task::yield_now().await;
            }
        }
        // One is under way when the server goes.
        let transaction = begin_append(&owner).await;
        let server = if chance.below(2) == 0 { &mut owners } else { &mut readers };
        server.crash();
        acknowledged += u64::from(owner.record.commit(transaction).await.is_ok());
        server.restart().await;
        let end =
            wait_for("the owner's store to answer", PATIENCE, async || owner.record.reader().end().await)
                .await;
        assert!(
            end.get() >= acknowledged,
            "crash {crash}: {acknowledged} were acknowledged and {end} are there"
        );
        // Unacknowledged ones may be there as well: a commit whose answer the crash swallowed.
        acknowledged = end.get();
    }
    let expected: Vec<i64> = (1..=i64::try_from(acknowledged).unwrap()).collect();
    wait_for("the reader to catch up", PATIENCE, async || {
        let seen = seen(&into).await;
        if seen.len() >= expected.len() {
            Ok(())
        } else {
            Err(format!("{} of {}", seen.len(), expected.len()))
        }
    })
    .await;
    assert_eq!(seen(&into).await, expected);
    assert_eq!(cursor(&into).await, i64::try_from(acknowledged).unwrap());
    assert!(!running.task.is_finished(), "the delivery ended: {:?}", running.status.borrow());
}

/// Applies, and then waits at a gate that the test may hold.
struct Gated;

impl Reaction<Happened> for Gated {
    async fn react(&self, transaction: &mut Transaction, entry: &Entry<Happened>) -> Result<(), ReactError> {
        project(transaction, entry).await?;
        sqlx::query("SELECT pg_advisory_xact_lock_shared(42)").execute(&mut **transaction).await?;
        Ok(())
    }
}

/// The reader's server goes when entries are applied and not yet committed, which a blind crash seldom meets.
#[tokio::test]
async fn a_crash_in_the_middle_of_a_batch_loses_and_repeats_nothing() {
    let (owners, mut readers) = (Postgres::start().await, Postgres::start().await);
    let owner = Owner::on(&owners).await;
    let into = reader_store(&readers, IDENTITY).await;
    let running = run(owner.record.reader(), &into, Gated);
    for round in 1..=5 {
        let mut gate = readers.superuser("identity").await;
        sqlx::raw_sql("SELECT pg_advisory_lock(42)").execute(&mut gate).await.unwrap();
        owner.append(4).await;
        wait_for("the reader to stand in the middle", PATIENCE, async || {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
            )
            .fetch_one(&mut readers.superuser("identity").await)
            .await
            .unwrap();
            waiting == 1
        })
        .await;
        readers.crash();
        readers.restart().await;
        wait_for("the reader to catch up", PATIENCE, async || seen(&into).await.len() >= 4 * round).await;
    }
    assert_eq!(seen(&into).await, (1..=20).collect::<Vec<i64>>());
    assert!(!running.task.is_finished(), "the delivery ended: {:?}", running.status.borrow());
}

#[tokio::test]
async fn a_delivery_waits_for_either_store_says_so_and_goes_on() {
    let (mut owners, mut readers) = (Postgres::start().await, Postgres::start().await);
    let owner = Owner::on(&owners).await;
    let into = reader_store(&readers, IDENTITY).await;
    let running = run(owner.record.reader(), &into, Project);
    let retrying = async || {
        wait_for("the delivery to say that it waits", PATIENCE, async || {
            match &running.status.borrow().state {
                DeliveryState::Retrying { why, .. } => Ok(why.clone()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    };
    owners.crash();
    let why = retrying().await;
    assert!(why.contains("inventory at"), "{why}");
    owners.restart().await;
    owner.append(2).await;
    wait_for("the reader to catch up", PATIENCE, async || seen(&into).await == [1, 2]).await;

    readers.crash();
    owner.append(2).await;
    let why = retrying().await;
    assert!(why.contains("identity at"), "{why}");
    readers.restart().await;
    wait_for("the reader to catch up", PATIENCE, async || seen(&into).await == [1, 2, 3, 4]).await;
    wait_for("the status to recover", PATIENCE, async || {
        running.status.borrow().state == DeliveryState::Following
    })
    .await;
}

async fn begin_append(owner: &Owner) -> Transaction {
    let mut transaction = owner.store.begin().await.unwrap();
    owner.record.append(&mut transaction, at(1), &joined(1)).await.unwrap();
    transaction
}
