//! The entries of a manifest, one type a kind: what the wire's kind of the same name needs to know, as a person writes it.
//!
//! They differ from the wire's types where a person and a machine differ: text stands for itself, an image may be one the
//! mesh carries, volumes and networks are the module's own by their short names, and `after` is beside the rest.

use std::{collections::BTreeMap, net::IpAddr};

use mesh_wire::kinds::{Check, Health, Lifecycle, Mode, Mount, Port, Ready, Replace, Tmpfs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! entry {
    ($(#[$doc:meta])* $type:ident { $($(#[$field_doc:meta])* $field:ident: $of:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $type {
            $($(#[$field_doc])* pub $field: $of,)*
            /// What has to be applied before it: `KIND:NAME` of other entries of this module, such as `file:/etc/hello`.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub after: Vec<String>,
            /// Whether the mesh only looks at it and says what is other than written here: it then makes, repairs and removes
            /// nothing of it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub observe_only: bool,
        }
    };
}

entry! {
    /// A directory. Removed with the module where the mesh made it and it is empty. Its id is `directory:PATH`.
    DirectoryEntry {
        /// Where: an absolute path.
        path: String,
        /// Its permission bits, such as "0755", which they are where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// Who owns it: a user's name. `root` where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        /// Which group owns it. `root` where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
    }
}

entry! {
    /// A file. What stood at its path before comes back when the module is removed. Its id is `file:PATH`.
    FileEntry {
        /// Where: an absolute path. Its directory has to exist, or be a `[[directory]]` of this module.
        path: String,
        /// What it holds, exactly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// What it holds, as standard base64, where it is not text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
        /// The file that holds what it holds: a path below the folder of `module.toml`. Instead of `content`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// Its permission bits, such as "0644", which they are where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        /// Who owns it: a user's name. `root` where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        /// Which group owns it. `root` where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
        /// What its content has to pass before it is put in its place, such as "nginx"; not checked where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<Check>,
    }
}

entry! {
    /// Packages that have to be installed. Its id is `package:` and the names with commas between.
    PackageEntry {
        /// Their names, as the machine's package manager knows them.
        names: Vec<String>,
        /// A folder on the machine with a package repository to install from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repository: Option<String>,
    }
}

entry! {
    /// A systemd unit. Its id is `unit:NAME`.
    UnitEntry {
        /// Its name with its type, e.g. `hello.service`. Used as it is: two modules cannot have the same.
        name: String,
        /// The unit file. Where neither this nor `source` is given, the unit is one the machine already has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The file that holds the unit file: a path below the folder of `module.toml`. Instead of `content`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// Its drop-ins, each by its name such as "10-limits.conf". Others stay.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        drop_ins: BTreeMap<String, String>,
        /// Whether it starts with the machine. Left as it is where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        enabled: Option<bool>,
        /// Whether it runs. Left as it is where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        active: Option<bool>,
        /// It is restarted when one of these entries changed, as `KIND:NAME`. They are also waited for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        restart_on: Vec<String>,
    }
}

entry! {
    /// A program that runs at times of the calendar, or again and again. Its id is `timer:NAME`.
    TimerEntry {
        /// Its name, without a type. Used as it is: two modules cannot have the same.
        name: String,
        /// When it runs, as systemd.time(7) writes it, such as "Mon..Fri *-*-* 08:30:00". Either this or `interval_s`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calendar: Option<String>,
        /// Seconds from one start to the next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval_s: Option<u64>,
        /// Whether it runs at once where the machine was off when it should have run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        persistent: bool,
        /// By how many seconds each run is delayed at most, at random.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        randomized_delay_s: Option<u64>,
        /// The program by its absolute path, and its arguments, each exactly as the program gets it.
        command: Vec<String>,
        /// The user by whom it runs; root where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Variables of its environment. No secrets: whoever may read the unit file sees them.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String>,
        /// In which folder it runs; `/` where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        working_directory: Option<String>,
    }
}

entry! {
    /// An image that the engine has before anything needs it. Its id is `image:` and its name, without the digest.
    ImageEntry {
        /// One the mesh carries (`mesh/hello`), or any by content (`NAME@sha256:DIGEST`).
        image: String,
    }
}

entry! {
    /// A system user and the group of its name, without a password. Deleted with the module where the mesh made it. Files
    /// and directories of this module that belong to it wait for it. Its id is `user:NAME`.
    UserEntry {
        /// Its name. Used as it is: two modules cannot have the same.
        name: String,
        /// Its number; chosen by the machine where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        /// The number of its group; chosen by the machine where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gid: Option<u32>,
        /// Its home, made where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<String>,
        /// Its login shell; none where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shell: Option<String>,
        /// Further groups it is in. They have to exist.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<String>,
    }
}

entry! {
    /// Parameters of the kernel, set at once and whenever the machine starts. Removed with the module: the old values come
    /// back. Its id is `sysctl:NAME`.
    SysctlEntry {
        /// What the settings are called together: they are kept in `/etc/sysctl.d/90-mesh-NAME.conf`. Two modules cannot
        /// have the same.
        name: String,
        /// Each parameter, such as "net.ipv4.ip_forward", and its value. Two modules cannot set the same.
        settings: BTreeMap<String, String>,
    }
}

entry! {
    /// A named volume. Its data stays when the module is removed, unless it was released before. Its id is `volume:NAME`.
    VolumeEntry {
        /// Its name within the module.
        name: String,
        /// Whether a person gave its data up: then the volume goes when the module or this entry does.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        released: bool,
    }
}

entry! {
    /// A network in which the module's containers find each other. Its id is `network:NAME`.
    NetworkEntry {
        /// Its name within the module.
        name: String,
        /// Its addresses, e.g. `10.90.0.0/24`; chosen by the engine where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subnet: Option<String>,
        /// Whether nothing in it reaches beyond the machine.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        internal: bool,
    }
}

entry! {
    /// A container: kept running, or run to its end once. Its id is `container:NAME`.
    ContainerEntry {
        /// Its name within the module.
        name: String,
        /// Its image: one the mesh carries (`mesh/hello`), or any by content (`NAME@sha256:DIGEST`).
        image: String,
        /// Whether it is kept running (`service`, also where not given) or runs to its end (`once`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lifecycle: Option<Lifecycle>,
        /// What it runs instead of the image's command; the image's entrypoint stays.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        command: Vec<String>,
        /// What it runs instead of the image's entrypoint.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        entrypoint: Vec<String>,
        /// In which folder of the image it begins; the image's own where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        working_directory: Option<String>,
        /// Variables of its environment. No secrets: whoever may inspect the engine sees them.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String>,
        /// What is mounted into it: volumes of this module by name, or absolute paths of the machine.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mounts: Vec<Mount>,
        /// Which of its ports are the machine's.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ports: Vec<Port>,
        /// The networks of this module it is in, by name; the engine's default one where none is named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        networks: Vec<String>,
        /// By which user of the image it runs, as `USER` or `UID:GID`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Whether its own files are read-only: then it writes to its mounts only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        read_only_root: bool,
        /// Folders in memory, empty whenever it starts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tmpfs: Vec<Tmpfs>,
        /// Capabilities it has beyond the engine's usual ones, each by its name, e.g. `NET_ADMIN`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cap_add: Vec<String>,
        /// Capabilities it does not have of the engine's usual ones, or `ALL`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cap_drop: Vec<String>,
        /// Names it knows beside those of its networks, each with its address.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        extra_hosts: BTreeMap<String, IpAddr>,
        /// Labels, for people and programs that look at the engine.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// How long it has to end by itself after its stop signal, in seconds; 10 where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_grace_s: Option<u32>,
        /// What ends it, e.g. `SIGINT`; the image's own signal, or `SIGTERM`, where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_signal: Option<String>,
        /// The most memory it may use, in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_bytes: Option<u64>,
        /// The most processor time it may use, in thousandths of a core.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu_millicores: Option<u32>,
        /// The most processes and threads it may have at a time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pids: Option<u32>,
        /// How large its `/dev/shm` is, in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shm_bytes: Option<u64>,
        /// How it is known to be ready; where not given, it is as soon as it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ready: Option<Ready>,
        /// Whether it is asked the same while it runs, and restarted when its answers stay bad.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        health: Option<Health>,
        /// Whether what it writes is for its machine alone. Where it is not, the last lines are quoted when it fails.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        private_log: bool,
        /// How it gives its place to another one when it is declared otherwise: `stop-first`, also where not given, or
        /// `start-first`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replace: Option<Replace>,
        /// It is replaced when one of these entries changed, as `KIND:NAME`. They are also waited for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        restart_on: Vec<String>,
    }
}
