//! Following live: from any position, as slowly as the follower likes, over a crash of the store, losing nothing.

use std::pin::pin;

use futures_util::{Stream, StreamExt};
use mesh_record::ReadError;
use mesh_testkit::{LogWatch, wait_for};
use tokio::time::timeout;

use super::append::append_raw;
use super::*;

async fn next(stream: &mut (impl Stream<Item = Result<Entry<Happened>, ReadError>> + Unpin)) -> u64 {
    let item = timeout(PATIENCE, stream.next()).await.unwrap().unwrap();
    item.unwrap().position.get()
}

#[tokio::test]
async fn a_follower_gets_what_is_there_and_what_comes_from_where_it_asks() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    owner.append(3).await;
    let mut stream = pin!(owner.record.reader().subscribe(position(1)));
    assert_eq!((next(&mut stream).await, next(&mut stream).await), (2, 3));
    // Nothing is there: it must wait, and the commit must wake it before its period of two seconds.
    assert!(timeout(Duration::from_millis(50), stream.next()).await.is_err());
    owner.append(1).await;
    assert_eq!(timeout(Duration::from_secs(1), next(&mut stream)).await.unwrap(), 4);
}

#[tokio::test]
async fn a_slow_follower_loses_nothing() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    let mut stream = pin!(owner.record.reader().subscribe(RecordPosition::START));
    owner.append(5).await;
    assert_eq!(next(&mut stream).await, 1);
    // Far more than a batch arrives while nobody asks.
    owner.append(300).await;
    for expected in 2..=305 {
        assert_eq!(next(&mut stream).await, expected);
    }
}

#[tokio::test]
async fn a_follower_waits_while_the_store_is_away_and_goes_on() {
    let mut postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    owner.append(2).await;
    let log = LogWatch::start();
    let mut stream = pin!(owner.record.reader().subscribe(RecordPosition::START));
    assert_eq!((next(&mut stream).await, next(&mut stream).await), (1, 2));
    postgres.crash();
    // The pool itself waits for a server that refuses connections, up to its own deadline, before it says so.
    tokio::select! {
        item = stream.next() => panic!("the store is away and yet there was {item:?}"),
        () = wait_for("the wait to be said", PATIENCE, async || log.has("a follower waits for the record")) => {}
    }
    postgres.restart().await;
    owner.append(1).await;
    assert_eq!(next(&mut stream).await, 3);
}

#[tokio::test]
async fn what_waiting_does_not_mend_is_the_last_item() {
    let postgres = Postgres::start().await;
    let owner = Owner::on(&postgres).await;
    owner.append(1).await;
    append_raw(&owner, 2, "node-flew").await;
    let mut stream = pin!(owner.record.reader().subscribe(RecordPosition::START));
    assert_eq!(next(&mut stream).await, 1);
    assert!(matches!(stream.next().await, Some(Err(ReadError::Unreadable { .. }))));
    assert!(stream.next().await.is_none());

    let mut stream = pin!(owner.record.reader().subscribe(position(9)));
    assert!(matches!(stream.next().await, Some(Err(ReadError::BeyondEnd { .. }))));
    assert!(stream.next().await.is_none());
}
