//! Machines are invited, join and are removed.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mesh_authz::Principal;
use mesh_identity::ErrorKind;
use mesh_ids::Fingerprint;
use mesh_wire::{EnrolOutcome, EnrolRefusal, JoinToken};
use sha2::{Digest as _, Sha256};

use crate::{HOUR, Machine, Mesh, admin, declare_key, no_labels, node, outcome, refusal};

#[tokio::test]
async fn a_machine_joins_and_asks_again_and_gets_the_same() {
    let mesh = Mesh::new().await;
    let (token, machine) = (mesh.invite("node-2").await, Machine::new());
    assert_eq!(token.declare_key, declare_key().verifying_key().to_string());
    let first = mesh.redeem(&machine.frame(&token)).await;
    let EnrolOutcome::Joined { account, declare_keys, labels, .. } = outcome(&first) else {
        panic!("not joined")
    };
    assert_eq!((account.as_str(), labels["role"].as_str()), ("n-node-2", "edge"));
    assert_eq!(declare_keys, std::slice::from_ref(&token.declare_key));

    mesh.set_clock(599);
    let again = mesh.again().redeem(&machine.frame(&token)).await.unwrap().unwrap();
    assert_eq!(machine.password(&again), machine.password(&first));
    let accounts = mesh.identity.accounts().await.unwrap();
    assert_eq!(accounts.len(), 1);
    let hash = STANDARD.decode(&accounts[0].password_hash).unwrap();
    let salted = Sha256::new().chain_update(&hash[..4]).chain_update(machine.password(&first)).finalize();
    assert_eq!(hash[4..], salted[..], "what the broker keeps is of the password the node got");
    assert_eq!(
        mesh.identity.identity_key(&node("node-2")).await.unwrap(),
        Some(machine.identity.verifying_key())
    );
    mesh.set_clock(601);
    assert_eq!(refusal(&mesh.redeem(&machine.frame(&token)).await), EnrolRefusal::Expired);
    let events = mesh.events().await;
    assert_eq!(events[1..], ["node-2 joined the mesh with mesh-host 0.1.0"]);
}

#[tokio::test]
async fn a_second_machine_is_refused_and_raises_an_alarm() {
    let mesh = Mesh::new().await;
    let (token, machine, thief) = (mesh.invite("node-2").await, Machine::new(), Machine::new());
    mesh.redeem(&machine.frame(&token)).await;
    assert_eq!(refusal(&mesh.redeem(&thief.frame(&token)).await), EnrolRefusal::Used);
    assert!(mesh.events().await[2].contains("a second machine tried to join as node-2"));
    assert_eq!(
        mesh.identity.identity_key(&node("node-2")).await.unwrap(),
        Some(machine.identity.verifying_key())
    );
}

#[tokio::test]
async fn of_many_machines_that_race_for_a_token_one_joins() {
    let mesh = Mesh::new().await;
    let token = mesh.invite("node-2").await;
    let machines: Vec<Machine> = (0..6).map(|_| Machine::new()).collect();
    let racing = machines.iter().map(|machine| {
        let (identity, frame) = (mesh.again(), machine.frame(&token));
        tokio::spawn(async move { identity.redeem(&frame).await.unwrap().unwrap().joined })
    });
    let mut joined = 0;
    for race in racing.collect::<Vec<_>>() {
        joined += usize::from(race.await.unwrap());
    }
    assert_eq!(joined, 1);
    assert_eq!(mesh.identity.accounts().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_does_not_hold_is_refused_and_says_why() {
    let mesh = Mesh::new().await;
    let (machine, token) = (Machine::new(), mesh.invite("node-2").await);
    let altered = |change: &dyn Fn(&mut JoinToken)| {
        let mut token = token.clone();
        change(&mut token);
        machine.frame(&token)
    };
    for (frame, expected) in [
        (altered(&|token| token.id = "0000000000000000".to_owned()), EnrolRefusal::Unknown),
        (altered(&|token| token.secret = mesh_seal::TokenSecret::generate()), EnrolRefusal::Invalid),
        (altered(&|token| token.node = node("node-3")), EnrolRefusal::Invalid),
    ] {
        assert_eq!(refusal(&mesh.redeem(&frame).await), expected);
    }
    mesh.set_clock(3600);
    assert_eq!(refusal(&mesh.redeem(&machine.frame(&token)).await), EnrolRefusal::Expired);
    assert_eq!(mesh.identity.expire_tokens().await.unwrap(), 1);
    assert_eq!(mesh.identity.expire_tokens().await.unwrap(), 0);
    assert_eq!(refusal(&mesh.redeem(&machine.frame(&token)).await), EnrolRefusal::Expired);
    for junk in [b"".as_slice(), b"{}", b"\xff"] {
        assert!(mesh.identity.redeem(junk).await.unwrap().is_none());
    }
    assert!(mesh.identity.accounts().await.unwrap().is_empty());
    assert_eq!(mesh.events().await[1..], ["the invitation of node-2 expired unused"]);
}

#[tokio::test]
async fn a_machine_that_is_a_node_does_not_become_another() {
    let mesh = Mesh::new().await;
    let machine = mesh.join("node-2").await;
    let token = mesh.invite("node-3").await;
    assert_eq!(refusal(&mesh.redeem(&machine.frame(&token)).await), EnrolRefusal::Invalid);
    assert_eq!(mesh.identity.accounts().await.unwrap().len(), 1);
    assert!(mesh.redeem(&Machine::new().frame(&token)).await.joined, "the token is not used up by it");
}

#[tokio::test]
async fn a_newer_invitation_ends_the_older() {
    let mesh = Mesh::new().await;
    let (old, new) = (mesh.invite("node-2").await, mesh.invite("node-2").await);
    let open = mesh.identity.open_tokens().await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].id.as_str(), open[0].account.clone()), (new.id.as_str(), format!("j-{}", new.id)));
    assert_eq!(open[0].password, new.secret.derive(&new.id).broker_password());
    let machine = Machine::new();
    assert_eq!(refusal(&mesh.redeem(&machine.frame(&old)).await), EnrolRefusal::Expired);
    assert!(mesh.redeem(&machine.frame(&new)).await.joined);
    assert!(mesh.identity.open_tokens().await.unwrap()[0].used);
}

#[tokio::test]
async fn a_removed_node_is_nobody_and_its_name_is_free() {
    let mesh = Mesh::new().await;
    let (token, machine) = (mesh.invite("node-2").await, Machine::new());
    mesh.redeem(&machine.frame(&token)).await;
    let refused = mesh.identity.invite(&admin(), &node("node-2"), HOUR, no_labels()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NameTaken);
    mesh.identity.remove_node(&admin(), &node("node-2")).await.unwrap();
    assert_eq!(mesh.identity.identity_key(&node("node-2")).await.unwrap(), None);
    assert!(mesh.identity.open_tokens().await.unwrap().is_empty());
    assert_eq!(refusal(&mesh.redeem(&machine.frame(&token)).await), EnrolRefusal::Used);
    let gone = mesh.identity.remove_node(&admin(), &node("node-2")).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    mesh.join("node-2").await;
    mesh.invite("node-3").await;
    mesh.identity.remove_node(&admin(), &node("node-3")).await.unwrap();
    assert!(mesh.events().await.last().unwrap().contains("admin removed node-3"));
}

#[tokio::test]
async fn nobody_may_invite_or_remove() {
    let mesh = Mesh::new().await;
    let nobody = Principal::Anonymous;
    let invited = mesh.identity.invite(&nobody, &node("node-2"), HOUR, no_labels()).await;
    assert_eq!(invited.unwrap_err().kind(), ErrorKind::Denied);
    let removed = mesh.identity.remove_node(&nobody, &node("node-2")).await;
    assert_eq!(removed.unwrap_err().kind(), ErrorKind::Denied);
    let short = mesh.identity.invite(&admin(), &node("node-2"), Duration::from_secs(1), no_labels()).await;
    assert_eq!(short.unwrap_err().kind(), ErrorKind::Refused);
    assert!(mesh.events().await.is_empty());
}

#[tokio::test]
async fn no_secret_is_in_the_store() {
    let mesh = Mesh::new().await;
    let (token, machine) = (mesh.invite("node-2").await, Machine::new());
    let redeemed = mesh.redeem(&machine.frame(&token)).await;
    mesh.identity.issue(&node("node-2"), &[], mesh_identity::Stage::Rest).await.unwrap();
    let stored = mesh.everything_stored().await;
    let hex = |bytes: [u8; 32]| Fingerprint::of_sha256(bytes).to_string();
    assert!(stored.contains(&machine.identity.verifying_key().to_string()), "it looks into the store");
    for secret in [
        machine.password(&redeemed),
        hex(*token.secret.as_bytes()),
        STANDARD.encode(token.secret.as_bytes()),
        hex(*declare_key().to_seed()),
        declare_key().to_text().to_string(),
    ] {
        assert!(!stored.contains(&secret));
    }
    let keys = token.secret.derive(&token.id);
    assert!(stored.contains(keys.broker_password()), "needed until the token ends");
    mesh.set_clock(3600);
    mesh.identity.expire_tokens().await.unwrap();
    assert!(!mesh.everything_stored().await.contains(keys.broker_password()));
}
