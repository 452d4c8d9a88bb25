//! An interface that answers each request as told, over real TLS, and the program run against it.

use std::{
    collections::{BTreeMap, VecDeque},
    process::Output,
    sync::{Arc, Mutex},
};

use mesh_testkit::Authority;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// Status and body by request, as in `GET /v1/nodes`. The status [`HANGS_UP`] is no answer.
pub(crate) type Answers = BTreeMap<&'static str, (u16, String)>;

/// Instead of a status: the connection ends without an answer.
pub(crate) const HANGS_UP: u16 = 0;

/// What is answered first, in turn, before what is always answered.
type Turns = Mutex<BTreeMap<&'static str, VecDeque<(u16, String)>>>;

/// An interface, and the folder of the person who speaks to it.
pub(crate) struct Played {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<String>>>,
}

/// What the program ended with.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Played {
    pub(crate) async fn start(answers: Answers) -> Self {
        Self::start_in_turn([], answers).await
    }

    pub(crate) async fn start_in_turn<const N: usize>(
        first: [(&'static str, Vec<(u16, String)>); N],
        answers: Answers,
    ) -> Self {
        let turns = first.into_iter().map(|(request, turns)| (request, turns.into())).collect();
        let answers = Arc::new((Turns::new(turns), answers));
        let authority = Authority::new();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let acceptor = acceptor(&authority);
        tokio::spawn(serve(listener, acceptor, answers, Arc::clone(&asked)));
        let folder = tempfile::tempdir().unwrap();
        let contexts = folder.path().join("mesh/contexts");
        std::fs::create_dir_all(&contexts).unwrap();
        let context = format!(
            r#"{{"name":"played","api":"https://127.0.0.1:{port}","server_name":"api.mesh.internal","ca_pem":{:?},"token":"t"}}"#,
            authority.pem()
        );
        std::fs::write(contexts.join("played.json"), context).unwrap();
        Self { folder, asked }
    }

    /// Runs `mesh` with these arguments, without a terminal.
    pub(crate) async fn mesh(&self, arguments: &[&str]) -> Ended {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_mesh"));
        command.args(arguments).env("XDG_CONFIG_HOME", self.folder.path()).env_remove("MESH_CONTEXT");
        command.stdin(std::process::Stdio::null());
        let Output { status, stdout, stderr } = command.output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn acceptor(authority: &Authority) -> TlsAcceptor {
    let certificate = authority.issue(&["api.mesh.internal"]);
    let chain =
        CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answers: Arc<(Turns, Answers)>,
    asked: Arc<Mutex<Vec<String>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answers, asked) = (acceptor.clone(), Arc::clone(&answers), Arc::clone(&asked));
        tokio::spawn(async move { drop(answer(stream, acceptor, &answers, &asked).await) });
    }
}

async fn answer(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    (turns, answers): &(Turns, Answers),
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await? {
            0 => return Ok(()),
            count => read.extend_from_slice(&chunk[..count]),
        }
    }
    let text = String::from_utf8_lossy(&read);
    let request: Vec<&str> = text.split(' ').take(2).collect();
    let request = request.join(" ");
    let missing = (404, problem(404, "not_found", &format!("nobody plays {request}")));
    let turn = turns.lock().unwrap().get_mut(request.as_str()).and_then(VecDeque::pop_front);
    let (status, body) = turn.as_ref().or_else(|| answers.get(request.as_str())).unwrap_or(&missing);
    asked.lock().unwrap().push(request);
    if *status == HANGS_UP {
        return Ok(());
    }
    let answer = format!(
        "HTTP/1.1 {status} Played\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// A problem as the interface says it.
pub(crate) fn problem(status: u16, code: &str, detail: &str) -> String {
    format!(r#"{{"type":"about:blank","title":"No","status":{status},"code":"{code}","detail":{detail:?}}}"#)
}
