//! What the process is told by its environment. Secrets come in files, never in variables; this is the one place that
//! reads either, the stores' own variables aside (`mesh-store` reads those).

use std::{fmt, fs, net::SocketAddr, path::PathBuf, str::FromStr};

use mesh_ids::MeshId;
use mesh_seal::SigningKey;
use secrecy::SecretString;

/// Where variables come from: the process, or a test.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why the process cannot start as it was told to.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A variable is not there.
    #[error("read {name}: it is not set; it has to hold {what}")]
    Missing {
        /// Which.
        name: &'static str,
        /// What it is for.
        what: &'static str,
    },
    /// A variable, or the file it names, does not hold what it should.
    #[error("read {name}: {reason}")]
    Invalid {
        /// Which.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// How the broker is reached.
pub struct BrokerSettings {
    /// Where it listens, `host:port`.
    pub address: String,
    /// The name in its certificate.
    pub server_name: String,
    /// The virtual host of the link.
    pub vhost: String,
    /// The control plane's account there.
    pub account: String,
    /// That account's password.
    pub password: SecretString,
    /// The management interface, e.g. `https://broker:15671`.
    pub management: String,
    /// Where nodes find the broker, `host:port`, the likeliest first. Put into join tokens.
    pub advertised: Vec<String>,
}

/// How the interface is served.
pub struct ApiSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The certificate and its CA, as PEM.
    pub certificate_pem: String,
    /// The certificate's key, as PEM.
    pub key_pem: SecretString,
}

/// All that `serve` is told.
pub struct Settings {
    /// Which mesh this is the control plane of.
    pub mesh: MeshId,
    /// The mesh's CA, as PEM.
    pub ca_pem: String,
    /// Signs declarations.
    pub declare_key: SigningKey,
    /// The one token of the administrator.
    pub admin_token: SecretString,
    /// The images this mesh carries: TOML with `[[image]]` tables; empty where none are.
    pub images_toml: String,
    /// The broker.
    pub broker: BrokerSettings,
    /// The interface.
    pub api: ApiSettings,
}

impl Settings {
    /// Reads everything, and refuses at the first thing that is missing or wrong.
    pub fn read(variables: Variables<'_>) -> Result<Self, SettingsError> {
        let read = Reader { variables };
        let declare_key = read.file("MESH_DECLARE_KEY_FILE", "the file with the declare key")?;
        Ok(Self {
            mesh: read.parsed_file("MESH_ID_FILE", "the file with the id of the mesh")?,
            ca_pem: read.file("MESH_CA_FILE", "the file with the mesh's CA, as PEM")?,
            declare_key: SigningKey::from_text(&declare_key)
                .map_err(|error| SettingsError::invalid("MESH_DECLARE_KEY_FILE", error))?,
            admin_token: read
                .file("MESH_ADMIN_TOKEN_FILE", "the file with the administrator's token")?
                .trim()
                .to_owned()
                .into(),
            images_toml: match (read.variables)("MESH_IMAGES_FILE") {
                Some(_) => read.file("MESH_IMAGES_FILE", "")?,
                None => String::new(),
            },
            broker: read.broker()?,
            api: ApiSettings {
                listen: read
                    .parsed("MESH_API_LISTEN", "the address and port of the interface, e.g. 0.0.0.0:8443")?,
                certificate_pem: read
                    .file("MESH_API_CERT_FILE", "the file with the interface's certificate")?,
                key_pem: read.file("MESH_API_KEY_FILE", "the file with that certificate's key")?.into(),
            },
        })
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("mesh", &self.mesh)
            .field("broker", &self.broker.address)
            .field("listen", &self.api.listen)
            .finish_non_exhaustive()
    }
}

impl SettingsError {
    fn invalid(name: &'static str, reason: impl fmt::Display) -> Self {
        Self::Invalid { name, reason: reason.to_string() }
    }
}

struct Reader<'a> {
    variables: Variables<'a>,
}

impl Reader<'_> {
    fn text(&self, name: &'static str, what: &'static str) -> Result<String, SettingsError> {
        (self.variables)(name).filter(|value| !value.is_empty()).ok_or(SettingsError::Missing { name, what })
    }

    fn file(&self, name: &'static str, what: &'static str) -> Result<String, SettingsError> {
        let path = PathBuf::from(self.text(name, what)?);
        fs::read_to_string(&path)
            .map_err(|error| SettingsError::invalid(name, format_args!("read {}: {error}", path.display())))
    }

    fn parsed<T>(&self, name: &'static str, what: &'static str) -> Result<T, SettingsError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        self.text(name, what)?.parse().map_err(|error| SettingsError::invalid(name, error))
    }

    fn parsed_file<T>(&self, name: &'static str, what: &'static str) -> Result<T, SettingsError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        self.file(name, what)?.trim().parse().map_err(|error| SettingsError::invalid(name, error))
    }

    fn broker(&self) -> Result<BrokerSettings, SettingsError> {
        const NAME: &str = "MESH_BROKER_URL";
        let url: url::Url =
            self.parsed(NAME, "where the broker is, e.g. amqps://control@broker:5671/link")?;
        let (Some(host), "amqps") = (url.host_str(), url.scheme()) else {
            return Err(SettingsError::invalid(NAME, "expected amqps://ACCOUNT@HOST:PORT/VHOST"));
        };
        if url.password().is_some() {
            return Err(SettingsError::invalid(
                NAME,
                "it holds a password; put that into MESH_BROKER_PASSWORD_FILE",
            ));
        }
        let advertised = match (self.variables)("MESH_ADVERTISE_FILE") {
            Some(_) => self.file("MESH_ADVERTISE_FILE", "")?,
            None => {
                self.text("MESH_ADVERTISE", "where nodes find the broker, as HOST:PORT, parted by commas")?
            }
        };
        let password =
            self.file("MESH_BROKER_PASSWORD_FILE", "the file with the password of the broker account")?;
        Ok(BrokerSettings {
            address: format!("{host}:{}", url.port().unwrap_or(5671)),
            server_name: "broker.mesh.internal".to_owned(),
            vhost: url.path().trim_start_matches('/').to_owned(),
            account: url.username().to_owned(),
            password: password.trim().to_owned().into(),
            management: self.text("MESH_BROKER_MANAGEMENT_URL", "the broker's management interface")?,
            advertised: advertised
                .split([',', '\n'])
                .map(str::trim)
                .filter(|address| !address.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::*;

    fn read_with(change: impl Fn(&str) -> Option<String>) -> Result<Settings, SettingsError> {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let key = SigningKey::from_seed(&[1; 32]).to_text();
        Settings::read(&|name| {
            change(name).or_else(|| {
                Some(match name {
                    "MESH_ID_FILE" => file("id", "0123456789abcdef0123456789abcdef\n"),
                    "MESH_CA_FILE" => file("ca", "PEM"),
                    "MESH_DECLARE_KEY_FILE" => file("key", &key),
                    "MESH_ADMIN_TOKEN_FILE" => file("token", "secret-token\n"),
                    "MESH_API_LISTEN" => "127.0.0.1:0".to_owned(),
                    "MESH_API_CERT_FILE" | "MESH_API_KEY_FILE" => file("pem", "PEM"),
                    "MESH_BROKER_URL" => "amqps://control@broker/link".to_owned(),
                    "MESH_BROKER_PASSWORD_FILE" => file("password", "secret-password\n"),
                    "MESH_BROKER_MANAGEMENT_URL" => "https://broker:15671".to_owned(),
                    "MESH_ADVERTISE" => "192.0.2.1:5671, node-1:5671".to_owned(),
                    _ => return None,
                })
            })
        })
    }

    #[test]
    fn settings_are_read_and_do_not_print_their_secrets() {
        let settings = read_with(|_| None).unwrap();
        assert_eq!(settings.broker.address, "broker:5671");
        assert_eq!(settings.broker.vhost, "link");
        assert_eq!(settings.broker.advertised, ["192.0.2.1:5671", "node-1:5671"]);
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let error = |wrong: &'static str, value: &'static str| {
            let change = |name: &str| (name == wrong).then(|| value.to_owned());
            read_with(change).unwrap_err().to_string()
        };
        assert!(error("MESH_API_LISTEN", "").starts_with("read MESH_API_LISTEN: it is not set"));
        assert!(error("MESH_API_LISTEN", "8443").starts_with("read MESH_API_LISTEN:"));
        assert!(error("MESH_CA_FILE", "/nonexistent").contains("/nonexistent"));
        assert!(error("MESH_BROKER_URL", "amqp://control@broker/link").contains("expected amqps://"));
        let with_password = error("MESH_BROKER_URL", "amqps://control:hunter2@broker/link");
        assert!(with_password.contains("MESH_BROKER_PASSWORD_FILE") && !with_password.contains("hunter2"));
    }
}
