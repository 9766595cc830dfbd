//! `--config FILE`: the same names as the flags, in TOML. A flag wins over its variable,
//! the variable over the file, the file over the built-in default.

use std::{env, ffi::OsString, fs, path::PathBuf};

use clap::{Arg, Command};

/// Makes the config file's settings the command's defaults.
pub(crate) fn as_defaults(command: Command) -> Result<Command, String> {
    let Some(path) = named_by(env::args_os()).or_else(|| env::var_os("LISTWATCH_CONFIG")) else {
        return Ok(command);
    };
    let path = PathBuf::from(path);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    apply(command, &text).map_err(|e| format!("{}: {e}", path.display()))
}

/// What `--config FILE` or `--config=FILE` names: needed before the flags are read.
fn named_by(arguments: impl Iterator<Item = OsString>) -> Option<OsString> {
    let mut arguments = arguments.skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            return arguments.next();
        }
        if let Some(path) = argument.to_str().and_then(|a| a.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    None
}

fn apply(mut command: Command, text: &str) -> Result<Command, String> {
    let settings: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    for (name, value) in settings {
        let named = |arg: &&Arg| arg.get_long() == Some(name.as_str());
        let Some(id) = command
            .get_arguments()
            .find(named)
            .map(|arg| arg.get_id().clone())
        else {
            return Err(format!(
                "{name} is no setting; the names are those of the flags"
            ));
        };
        if id == "config" {
            return Err("config cannot be set in the config file".to_owned());
        }
        let value = written_as_flag(&value).map_err(|problem| format!("{name}: {problem}"))?;
        command = command.mut_arg(id, |arg| arg.default_value(value));
    }
    Ok(command)
}

fn written_as_flag(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(flag) => Ok(flag.to_string()),
        toml::Value::Array(values) => {
            let parts: Result<Vec<_>, _> = values.iter().map(written_as_flag).collect();
            Ok(parts?.join(","))
        }
        _ => Err("must be a text, a number, true or false, or a list of these".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::flags::Flags;

    fn flags(file: &str, arguments: &[&str]) -> Flags {
        let command = apply(Flags::command(), file).unwrap();
        let arguments = ["listwatchd"].iter().chain(arguments);
        Flags::from_arg_matches(&command.get_matches_from(arguments)).unwrap()
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file = "listen = '0.0.0.0:1'\nephemeral = true\nwatch-cache-sizes = ['pods=5']\n";
        let read = flags(file, &[]);
        assert_eq!(read.serve.listen, "0.0.0.0:1");
        assert!(read.serve.ephemeral);
        assert_eq!(read.serve.watch_cache_sizes.len(), 1);
        assert_eq!(
            flags(file, &["--listen", "1.2.3.4:5"]).serve.listen,
            "1.2.3.4:5"
        );
        assert_eq!(flags("", &[]).serve.listen, "127.0.0.1:7450");
    }

    #[test]
    fn an_unknown_setting_is_named() {
        let error = apply(Flags::command(), "no-such-thing = 1").unwrap_err();
        assert!(error.contains("no-such-thing"), "{error}");
    }
}
