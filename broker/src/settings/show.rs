//! The table of settings for people. Decides nothing.

use std::fmt::Write;

use super::{ALL, Settings};

/// All settings with unit, value, where they apply and meaning, as text.
pub fn table_for_people(settings: &Settings) -> String {
    let mut text = String::new();
    for setting in ALL {
        let value = match settings.text(*setting) {
            "" => "(nothing)",
            value => value,
        };
        let unit = match (settings.text(*setting), setting.unit()) {
            ("", _) | (_, "") => String::new(),
            (_, unit) => format!(" {unit}"),
        };
        let default = match (settings.is_set(*setting), setting.default()) {
            (false, _) => "the default".to_owned(),
            (true, "") => "set; by default nothing".to_owned(),
            (true, default) => format!("set; by default {default}"),
        };
        let topic = match setting.topic() {
            Some(name) if name == setting.name() => "; each topic may have its own".to_owned(),
            Some(name) => format!("; each topic may have its own, as {name}"),
            None => String::new(),
        };
        let _infallible = writeln!(
            text,
            "{} = {value}{unit}\n    {}.\n    Allowed: {} ({default}){topic}.",
            setting.name(),
            setting.meaning(),
            setting.allowed(),
        );
    }
    text
}
