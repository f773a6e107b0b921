//! The configuration file: which one it is, and what it says. Its values are never repeated in an
//! error, since a node's URL may have a password in it.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use toml::de::{DeTable, DeValue};

use super::{
    SettingsError,
    file::{self, Exposure},
};
use crate::{
    cli::{GuardArg, NodeArgs, restart_guard},
    duration,
};

/// The file's place below a directory of configuration.
const NAME: &str = "redlock/config.toml";

/// A file that is longer is no configuration.
const LONGEST: u64 = 1024 * 1024;

/// Every key, as it is spelt.
const KEYS: &str = "nodes, username, password-file, tls-ca, tls-cert, tls-key, tls-server-name, \
                    prefix, connect-timeout, node-timeout, max-ttl, restart-guard, \
                    allow-even-nodes";

/// What the configuration file says; nothing where there is none. Its debug form hides it.
#[derive(Default)]
pub struct Config {
    /// Which file it is, absolute.
    pub path: Option<PathBuf>,
    /// Whether others can read it.
    pub exposure: Exposure,
    /// The list of nodes, as it is written.
    pub nodes: Option<Entry<Vec<String>>>,
    /// The user for nodes that name none.
    pub username: Option<Entry<String>>,
    /// Where the password is: a file, beside this one unless absolute, or `fd:N`.
    pub password_file: Option<Entry<String>>,
    /// Whom to trust for TLS: a file, beside this one unless absolute, as the two that follow.
    pub tls_ca: Option<Entry<String>>,
    /// Our certificate.
    pub tls_cert: Option<Entry<String>>,
    /// Its key.
    pub tls_key: Option<Entry<String>>,
    /// What the nodes' certificates carry.
    pub tls_server_name: Option<Entry<String>>,
    /// What is put before every key.
    pub prefix: Option<Entry<String>>,
    /// How long resolving and connecting may take.
    pub connect_timeout: Option<Entry<Duration>>,
    /// How long an answer may take.
    pub node_timeout: Option<Entry<Duration>>,
    /// The longest ttl that is accepted.
    pub max_ttl: Option<Entry<Duration>>,
    /// When a node that restarted may vote.
    pub restart_guard: Option<Entry<GuardArg>>,
    /// Whether an even list is accepted.
    pub allow_even_nodes: Option<Entry<bool>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// What it is.
    pub value: T,
    /// File, line and key, for people: `/etc/redlock/config.toml:3: max-ttl`.
    pub place: String,
}

impl Config {
    /// Finds and reads the file: the one that was named, else the first that is there.
    pub fn find(args: &NodeArgs) -> Result<Self, SettingsError> {
        let Some(named) = &args.config else {
            let (xdg, home) = (env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"));
            return match first(usual(Path::new("/"), xdg, home))? {
                Some(path) => Self::read(path),
                None => Ok(Self::default()),
            };
        };
        let option = args.origins.config.name("config");
        let path = std::path::absolute(named).map_err(|error| {
            SettingsError::config(format!("{option}: {}", super::words(&error)))
        })?;
        Self::read(path).map_err(|SettingsError { code, text }| SettingsError {
            code,
            text: format!("{option}: {text}"),
        })
    }

    /// Where the files are that it names without a directory.
    pub fn directory(&self) -> &Path {
        self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"))
    }

    fn read(path: PathBuf) -> Result<Self, SettingsError> {
        let failed = |text| {
            SettingsError::config(format!(
                "cannot read the configuration {}: {text}",
                path.display()
            ))
        };
        let (bytes, exposure) = file::read(&path, LONGEST).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|_| failed("it is not valid UTF-8".into()))?;
        let mut config = Self::parse(&text, &path)?;
        config.exposure = exposure;
        config.path = Some(path);
        Ok(config)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let line = |span: Range<usize>| {
            let before = text.get(..span.start).unwrap_or(text);
            before.matches('\n').count() + 1
        };
        let path = path.display();
        let table = DeTable::parse(text).map_err(|error| {
            let place = line(error.span().unwrap_or_default());
            // Its display would repeat the line.
            let reason = error.message().replace('\n', ", ");
            SettingsError::config(format!("{path}:{place}: no TOML: {reason}"))
        })?;
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut config = Self::default();
        for (key, value) in entries {
            let name: &str = key.get_ref();
            // What has to be quoted is no key of ours; it may be a URL in a wrong place.
            let is_bare = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
            let shown = if is_bare { name } else { "a key in quotes" };
            let place = format!("{path}:{}: {shown}", line(key.span()));
            let found = Found { place, value: value.get_ref() };
            match name {
                "nodes" => config.nodes = Some(found.list()?),
                "username" => config.username = Some(found.text()?),
                "password-file" => config.password_file = Some(found.text()?),
                "tls-ca" => config.tls_ca = Some(found.text()?),
                "tls-cert" => config.tls_cert = Some(found.text()?),
                "tls-key" => config.tls_key = Some(found.text()?),
                "tls-server-name" => config.tls_server_name = Some(found.text()?),
                "prefix" => config.prefix = Some(found.text()?),
                "connect-timeout" => config.connect_timeout = Some(found.duration()?),
                "node-timeout" => config.node_timeout = Some(found.duration()?),
                "max-ttl" => config.max_ttl = Some(found.duration()?),
                "restart-guard" => config.restart_guard = Some(found.guard()?),
                "allow-even-nodes" => config.allow_even_nodes = Some(found.truth()?),
                "password" => {
                    return Err(found.wrong("a password has a file of its own: password-file"));
                }
                _ => return Err(found.wrong(format!("unknown key (known: {KEYS})"))),
            }
        }
        Ok(config)
    }
}

/// The usual places, best first: the user's, the machine's. `root` is `/`.
fn usual(root: &Path, xdg: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    // The XDG specification: a relative path is to be ignored.
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    let user = absolute(xdg).or_else(|| absolute(home).map(|home| home.join(".config")));
    user.into_iter().chain([root.join("etc")]).map(|place| place.join(NAME)).collect()
}

/// The first that is there. A file in a directory that we may not enter is not there: it is that of
/// somebody else, whose HOME was left to us.
fn first(places: Vec<PathBuf>) -> Result<Option<PathBuf>, SettingsError> {
    for path in places {
        match fs::symlink_metadata(&path) {
            Ok(_) => return Ok(Some(path)),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {}
                _ => {
                    let (path, reason) = (path.display(), super::words(&error));
                    let text = format!("cannot read the configuration {path}: {reason}");
                    return Err(SettingsError::config(text));
                }
            },
        }
    }
    Ok(None)
}

/// A key's value, to be read as what it should be.
struct Found<'a> {
    place: String,
    value: &'a DeValue<'a>,
}

impl Found<'_> {
    fn wrong(&self, reason: impl fmt::Display) -> SettingsError {
        SettingsError::config(format!("{}: {reason}", self.place))
    }

    fn no(&self, wanted: &str) -> SettingsError {
        self.wrong(format!("{wanted} is needed, not a value of type {}", self.value.type_str()))
    }

    fn entry<T>(&self, value: T) -> Entry<T> {
        Entry { value, place: self.place.clone() }
    }

    fn str(&self, wanted: &str) -> Result<&str, SettingsError> {
        self.value.as_str().ok_or_else(|| self.no(wanted))
    }

    fn text(&self) -> Result<Entry<String>, SettingsError> {
        let text = self.str("a string")?;
        // Neither a path nor a variable of the command's environment can carry one.
        if text.contains('\0') {
            return Err(self.wrong("a NUL character stands in it"));
        }
        Ok(self.entry(text.to_owned()))
    }

    fn list(&self) -> Result<Entry<Vec<String>>, SettingsError> {
        let wanted = "a list of strings";
        let items = match self.value {
            DeValue::Array(items) => items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or_else(|| self.wrong(format!("{wanted} is needed")))?,
            _ => vec![self.str(wanted)?.to_owned()],
        };
        Ok(self.entry(items))
    }

    fn duration(&self) -> Result<Entry<Duration>, SettingsError> {
        let text = self.str("a duration in quotes, such as \"500ms\",")?;
        let duration = duration::parse(text).map_err(|error| self.wrong(error))?;
        Ok(self.entry(duration))
    }

    fn guard(&self) -> Result<Entry<GuardArg>, SettingsError> {
        let text = self.str("auto, strict, off or an age in quotes")?;
        let rule = restart_guard(text).map_err(|error| self.wrong(error))?;
        Ok(self.entry(rule))
    }

    fn truth(&self) -> Result<Entry<bool>, SettingsError> {
        let value = self.value.as_bool().ok_or_else(|| self.no("true or false"))?;
        Ok(self.entry(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/c.toml")).map_err(|error| error.text)
    }

    #[test]
    fn every_key_is_read_and_knows_its_line() {
        let config = parse(
            "# five masters\nnodes = [\n  'a:1',\n  'redis://u:p@b:1', # two\n]\nusername = 'app'\n\
             password-file = 'pw'\nprefix = 'p:'\nconnect-timeout = '1s'\nnode-timeout = '250ms'\n\
             max-ttl = '1h'\nrestart-guard = '90s'\nallow-even-nodes = true\n\
             tls-ca = 'ca'\ntls-cert = 'crt'\ntls-key = 'key'\ntls-server-name = 'db'\n",
        )
        .unwrap();
        let nodes = config.nodes.unwrap();
        assert_eq!(nodes.value, ["a:1", "redis://u:p@b:1"]);
        assert_eq!(nodes.place, "/c.toml:2: nodes");
        let text = |entry: Option<Entry<String>>| entry.map(|entry| entry.value).unwrap();
        assert_eq!(text(config.username), "app");
        assert_eq!(text(config.password_file), "pw");
        assert_eq!(text(config.prefix), "p:");
        assert_eq!((text(config.tls_ca), text(config.tls_cert)), ("ca".into(), "crt".into()));
        assert_eq!(text(config.tls_key), "key");
        assert_eq!(text(config.tls_server_name), "db");
        let time = |entry: Option<Entry<Duration>>| entry.unwrap().value.as_millis();
        assert_eq!(time(config.connect_timeout), 1000);
        assert_eq!(time(config.node_timeout), 250);
        assert_eq!(time(config.max_ttl.clone()), 3_600_000);
        assert_eq!(config.max_ttl.unwrap().place, "/c.toml:11: max-ttl");
        let age = GuardArg::For(Duration::from_secs(90));
        assert_eq!(config.restart_guard.unwrap().value, age);
        assert!(config.allow_even_nodes.unwrap().value);
        assert_eq!(parse("nodes = 'a:1,b:1'").unwrap().nodes.unwrap().value, ["a:1,b:1"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_file_line_and_key_and_without_the_value() {
        for (text, expected) in [
            ("\nnode = 's3cret'", "/c.toml:2: node: unknown key (known: nodes, "),
            ("[redlock]\nnodes = []", "/c.toml:1: redlock: unknown key"),
            ("password = 's3cret'", "/c.toml:1: password: a password has a file of its own"),
            ("nodes = 5", "/c.toml:1: nodes: a list of strings is needed, not a value of type int"),
            ("nodes = ['redis://:s3cret@a', 5]", "/c.toml:1: nodes: a list of strings is needed"),
            ("prefix = 1", "/c.toml:1: prefix: a string is needed, not a value of type integer"),
            ("prefix = \"s3cret\\u0000\"", "/c.toml:1: prefix: a NUL character stands in it"),
            (
                "node-timeout = 5",
                "/c.toml:1: node-timeout: a duration in quotes, such as \"500ms\"",
            ),
            ("node-timeout = '5'", "/c.toml:1: node-timeout: a unit is needed: did you mean 5s?"),
            ("restart-guard = 'x'", "/c.toml:1: restart-guard: not auto, strict or off, and "),
            ("restart-guard = true", "/c.toml:1: restart-guard: auto, strict, off or an age in"),
            ("allow-even-nodes = 's3cret'", "/c.toml:1: allow-even-nodes: true or false is needed"),
            ("prefix = 'a'\nnodes = ['redis://:s3cret@a'", "/c.toml:2: no TOML: unclosed array"),
            ("nodes = \"redis://:s3cret\\p@a\"", "/c.toml:1: no TOML: "),
            ("nodes = redis://:s3cret@a", "/c.toml:1: no TOML: "),
            ("redis://:s3cret@a", "/c.toml:1: no TOML: "),
            ("prefix = 's3cret\n", "/c.toml:1: no TOML: "),
            ("prefix = 'a'\n\nprefix = 's3cret'", "/c.toml:3: no TOML: duplicate key"),
            ("allow-even-nodes = s3cret", "/c.toml:1: no TOML: "),
            ("'redis://:s3cret@a' = 1", "/c.toml:1: a key in quotes: unknown key"),
            ("prefix = 's3cret' s3cret", "/c.toml:1: no TOML: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
            assert!(!error.contains("s3cret") && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn usual_places_are_the_users_and_then_the_machines() {
        let usual = |xdg: Option<&str>, home: Option<&str>| {
            let places = usual(Path::new("/r"), xdg.map(Into::into), home.map(Into::into));
            places.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let machine = "/r/etc/redlock/config.toml";
        let home = "/h/.config/redlock/config.toml";
        assert_eq!(usual(Some("/x"), Some("/h")), ["/x/redlock/config.toml", machine]);
        for xdg in [None, Some(""), Some("x")] {
            assert_eq!(usual(xdg, Some("/h")), [home, machine]);
            assert_eq!(usual(xdg, None), [machine]);
        }
    }

    #[test]
    fn first_file_that_is_there_is_the_one() {
        let root = tempfile::tempdir().unwrap();
        let at = |place: &str| root.path().join(place).join(NAME);
        let places = || vec![at("user"), at("etc")];
        assert_eq!(first(places()), Ok(None));
        // Not a directory where one should be: nothing is there.
        fs::write(root.path().join("user"), "").unwrap();
        fs::create_dir_all(root.path().join("etc/redlock")).unwrap();
        fs::write(at("etc"), "").unwrap();
        assert_eq!(first(places()), Ok(Some(at("etc"))));
        fs::remove_file(root.path().join("user")).unwrap();
        fs::create_dir_all(root.path().join("user/redlock")).unwrap();
        // A link that leads nowhere is there: what it should lead to was meant.
        std::os::unix::fs::symlink("nowhere", at("user")).unwrap();
        assert_eq!(first(places()), Ok(Some(at("user"))));
        let error = Config::read(at("user")).unwrap_err().text;
        assert!(error.contains("no such file") && error.contains("user/redlock"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
