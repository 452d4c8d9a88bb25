//! The administrator's token.

use mesh_authz::Principal;
use mesh_identity::{Error, Refusal};

use crate::{Mesh, admin};

#[tokio::test]
async fn the_holder_of_the_token_is_the_administrator_and_nobody_else_is() {
    let mesh = Mesh::new().await;
    let token = "mesh-admin-0123456789abcdef0123456789abcdef";
    let who = async |token: &str| mesh.again().authenticate(token).await.unwrap();
    assert_eq!(who("").await, None, "before there is one");
    mesh.identity.set_admin_token(&format!("{token}\n")).await.unwrap();
    mesh.identity.set_admin_token(token).await.unwrap();
    assert_eq!(who(token).await, Some(admin()));
    for other in ["", "mesh-admin-0123456789abcdef0123456789abcdeF", &token[..token.len() - 1]] {
        assert_eq!(who(other).await, None, "{other:?}");
    }
    mesh.identity.set_admin_token(&token.replace("mesh", "hsem")).await.unwrap();
    assert_eq!(who(token).await, None, "replaced");
    assert!(!mesh.everything_stored().await.contains("0123456789abcdef0123456789abcdef"));
}

#[tokio::test]
async fn a_token_that_could_be_guessed_is_refused() {
    let mesh = Mesh::new().await;
    let refused = mesh.identity.set_admin_token("hunter2").await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::WeakToken)));
    assert_eq!(mesh.identity.authenticate("hunter2").await.unwrap(), None::<Principal>);
}
