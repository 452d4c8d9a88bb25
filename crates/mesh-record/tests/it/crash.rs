//! Owner's and reader's servers crash at moments drawn from a seed: every committed entry is applied once, in order.

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

async fn begin_append(owner: &Owner) -> Transaction {
    let mut transaction = owner.store.begin().await.unwrap();
    owner.record.append(&mut transaction, at(1), &joined(1)).await.unwrap();
    transaction
}
