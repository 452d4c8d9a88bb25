//! Appending: in the owner's transaction, in an order that readers see without holes, and never undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mesh_record::{AppendError, ReadError};

use super::*;

#[tokio::test]
async fn an_entry_is_there_after_the_commit_and_not_before() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    let reader = owner.record.reader();
    let mut transaction = owner.store.begin().await.unwrap();
    let when = at(1_900_000_000) + Duration::from_micros(123_456);
    assert_eq!(owner.record.append(&mut transaction, when, &joined(1)).await.unwrap(), position(1));
    assert_eq!(owner.record.append(&mut transaction, when, &joined(2)).await.unwrap(), position(2));
    assert!(reader.read(RecordPosition::START, 10).await.unwrap().entries.is_empty());
    owner.record.commit(transaction).await.unwrap();

    let batch = reader.read(RecordPosition::START, 10).await.unwrap();
    assert!(batch.stopped.is_none());
    let first = Entry { position: position(1), at: when, kind: "node-joined".to_owned(), event: joined(1) };
    assert_eq!(batch.entries[0], first);
    assert_eq!(batch.entries.len(), 2);
    assert_eq!(reader.read(position(1), 10).await.unwrap().entries[0].event, joined(2));
    assert_eq!(reader.read(RecordPosition::START, 1).await.unwrap().entries.len(), 1);
    assert_eq!(reader.end().await.unwrap(), position(2));
}

#[tokio::test]
async fn a_rolled_back_entry_leaves_no_hole() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    let mut lost = owner.store.begin().await.unwrap();
    owner.record.append(&mut lost, at(1), &joined(9)).await.unwrap();
    lost.rollback().await.unwrap();
    owner.append(2).await;
    let entries = owner.record.reader().read(RecordPosition::START, 10).await.unwrap().entries;
    let positions: Vec<u64> = entries.iter().map(|entry| entry.position.get()).collect();
    assert_eq!(positions, [1, 2]);
}

/// Eight writers commit and roll back at moments drawn from a seed while a reader follows: what it has read is at
/// every moment the record's beginning, without a hole, and in the end it is all that was committed.
#[tokio::test]
async fn positions_become_visible_in_order_whatever_the_writers_do() {
    const WRITERS: u64 = 8;
    let rounds = if std::env::var_os("MESH_LONG").is_some() { 400 } else { 25 };
    let postgres = Postgres::start().await;
    let owner = Arc::new(Owner::on(&postgres).await);
    let done = Arc::new(AtomicBool::new(false));

    let follower = tokio::spawn({
        let (reader, done) = (owner.record.reader(), Arc::clone(&done));
        async move {
            let mut read = Vec::new();
            loop {
                let finished = done.load(Ordering::SeqCst);
                let batch = reader.read(position(read.len() as u64), 7).await.unwrap();
                assert!(batch.stopped.is_none(), "{:?}", batch.stopped);
                if finished && batch.entries.is_empty() {
                    return read;
                }
                read.extend(batch.entries);
            }
        }
    });
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let owner = Arc::clone(&owner);
            tokio::spawn(async move {
                let mut chance = Chance(writer + 1);
                let mut committed = Vec::new();
                for round in 0..rounds {
                    let mut transaction = owner.store.begin().await.unwrap();
                    let event = joined(writer * 1_000_000 + round);
                    let position = owner.record.append(&mut transaction, at(round), &event).await.unwrap();
                    // The time between append and commit is what could turn the order around.
                    sqlx::query("SELECT pg_sleep($1 / 1000.0)")
                        .bind(f64::from(u32::try_from(chance.below(4)).unwrap()))
                        .execute(&mut *transaction)
                        .await
                        .unwrap();
                    if chance.below(4) == 0 {
                        transaction.rollback().await.unwrap();
                    } else {
                        owner.record.commit(transaction).await.unwrap();
                        committed.push((position, event));
                    }
                }
                committed
            })
        })
        .collect();
    let mut committed = Vec::new();
    for writer in writers {
        committed.extend(writer.await.unwrap());
    }
    done.store(true, Ordering::SeqCst);
    committed.sort_by_key(|(position, _)| *position);
    let read: Vec<_> =
        follower.await.unwrap().into_iter().map(|entry| (entry.position, entry.event)).collect();
    assert_eq!(read, committed);
    assert_eq!(read.last().unwrap().0.get(), read.len() as u64);
}

#[tokio::test]
async fn a_snapshot_too_old_to_append_fails_instead_of_disordering() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    let mut old = owner.store.begin().await.unwrap();
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        .execute(&mut *old)
        .await
        .unwrap();
    owner.append(1).await;
    let failed = owner.record.append(&mut old, at(1), &joined(2)).await.unwrap_err();
    assert!(matches!(failed, AppendError::Store { .. }), "{failed:?}");
}

#[tokio::test]
async fn what_happened_cannot_be_rewritten() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    owner.append(1).await;
    for statement in ["UPDATE record SET kind = 'x'", "DELETE FROM record", "TRUNCATE record"] {
        let refused = sqlx::query(statement).execute(owner.store.pool()).await.unwrap_err().to_string();
        assert!(refused.contains("the record is append-only"), "{refused}");
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_written_is_refused_before_the_store_is_asked() {
    let postgres = Postgres::start().await;
    let store = store(&postgres, INVENTORY, schema::RECORD_1).await;
    let record: Record<String> = Record::new(&store, &[]);
    let mut transaction = store.begin().await.unwrap();
    let refused = record.append(&mut transaction, at(1), &"no kind".to_owned()).await.unwrap_err();
    assert!(refused.to_string().contains("not an object with a string field `kind`"), "{refused}");
    store.commit(transaction).await.unwrap();
}

/// Puts a row into the record as another version of the program would have.
pub(crate) async fn append_raw(owner: &Owner, number: i64, kind: &str) {
    sqlx::query("INSERT INTO record VALUES ($1, now(), $2, jsonb_build_object('kind', $2, 'node', 'raw'))")
        .bind(number)
        .bind(kind)
        .execute(owner.store.pool())
        .await
        .unwrap();
}

#[tokio::test]
async fn an_old_event_is_lifted_and_an_unknown_one_is_named() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    append_raw(&owner, 1, "node-came").await;
    append_raw(&owner, 2, "node-flew").await;
    let batch = owner.record.reader().read(RecordPosition::START, 10).await.unwrap();
    assert_eq!(batch.entries[0].event, Happened::NodeJoined { node: "raw".to_owned() });
    assert_eq!((batch.entries.len(), &*batch.entries[0].kind), (1, "node-came"));
    let words = batch.stopped.unwrap().to_string();
    assert!(words.contains("record of inventory at 2") && words.contains("\"node-flew\""), "{words}");
}

#[tokio::test]
async fn a_hole_is_an_error_and_not_stepped_over() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    owner.append(1).await;
    append_raw(&owner, 3, "node-joined").await;
    let batch = owner.record.reader().read(RecordPosition::START, 10).await.unwrap();
    assert_eq!(batch.entries.len(), 1);
    assert!(matches!(batch.stopped, Some(ReadError::Hole { found, .. }) if found == position(3)));
}
