//! Each command: its arguments turned into a call, the result into text. What goes wrong is one sentence.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use highwater_engine::units::{InvalidName, NodeId, Offset, Timestamp, TopicPartition};
use highwater_replication::controller::Election;

use super::arguments::{
    Arguments, Bootstrap, BrokerCommand, CarryArguments, CatArguments, Command, ControllerCommand,
    TopicsCommand,
};
use super::run;
use crate::ask::{self, AskError, Connection, NewTopic, UncleanRefusal};
use crate::clock::Clock;
use crate::serve::{self, ControllerHostError, ServeError};
use crate::settings::{self, SettingError, Settings};
use crate::supervisor::{self, BrokerOrder, LaunchError, Order, OrderError, RunError};
use crate::tools::carry::{Carry, CarryError, CarryPlan, Direction};
use crate::tools::cat::{Cat, CatError, cat};
use crate::tools::dump::{DumpError, Format, dump};
use crate::tools::rebuild::{Rebuild, RebuildFailure, rebuild_controller};
use crate::tools::recover::{Recover, RecoverError, recover};
use crate::tools::repair::{RepairError, Repaired, repair};
use crate::tools::verify::{Verdict, Verify, VerifyError, verify};

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("there is no broker {0}")]
    NoSuchBroker(i32),
    #[error("--replica-assignment {0:?}: say the brokers of each partition, as 2:3,3:1")]
    Assignment(String),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Unclean(#[from] UncleanRefusal),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Rebuild(#[from] RebuildFailure),
    #[error("--topic {0:?}: say TOPIC:KEY=VALUE")]
    TopicSetting(String),
    #[error(transparent)]
    Dump(DumpError),
    #[error(transparent)]
    Cat(CatError),
    #[error(transparent)]
    Carry(#[from] CarryError),
    #[error(transparent)]
    Verify(VerifyError),
    #[error(transparent)]
    Recover(RecoverError),
    #[error(transparent)]
    Repair(RepairError),
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Cluster(#[from] RunError<ControllerHostError>),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Controller(#[from] ControllerHostError),
    #[error("the program cannot find itself, to start brokers: {0}")]
    NoProgram(io::Error),
    #[error("{0}")]
    NoChance(io::Error),
    #[error("signals cannot be waited for: {0}")]
    Signals(io::Error),
}

impl From<RecoverError> for Failure {
    fn from(error: RecoverError) -> Self {
        if let RecoverError::Write(error) = error { Self::Output(error) } else { Self::Recover(error) }
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Self {
        if let RepairError::Write(error) = error { Self::Output(error) } else { Self::Repair(error) }
    }
}

impl From<DumpError> for Failure {
    fn from(error: DumpError) -> Self {
        match error {
            DumpError::Write(error) => Self::Output(error),
            DumpError::Read { .. } | DumpError::Unknown { .. } => Self::Dump(error),
        }
    }
}

impl From<CatError> for Failure {
    fn from(error: CatError) -> Self {
        if let CatError::Write(error) = error { Self::Output(error) } else { Self::Cat(error) }
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        if let VerifyError::Write(error) = error { Self::Output(error) } else { Self::Verify(error) }
    }
}

impl Failure {
    /// 2 if the arguments make no sense, or what was to be verified could not be read; 1 for everything else.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Setting(_)
            | Self::Name(_)
            | Self::NoSuchBroker(_)
            | Self::Assignment(_)
            | Self::Verify(_)
            | Self::TopicSetting(_)
            | Self::Launch(_) => 2,
            Self::Ask(_)
            | Self::Unclean(_)
            | Self::Rebuild(_)
            | Self::Order(_)
            | Self::Dump(_)
            | Self::Cat(_)
            | Self::Carry(_)
            | Self::Recover(_)
            | Self::Repair(_)
            | Self::Output(_)
            | Self::Cluster(_)
            | Self::Serve(_)
            | Self::Controller(_)
            | Self::NoProgram(_)
            | Self::NoChance(_)
            | Self::Signals(_) => 1,
        }
    }
}

pub(super) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    match arguments.command {
        None => run::cluster(arguments.cluster)?,
        Some(Command::Serve(arguments)) => run::broker(arguments)?,
        Some(Command::Controller { command: Some(command), .. }) => rebuild(command)?,
        Some(Command::Controller { command: None, listen, data, brokers, set }) => {
            run::controller(listen, data, brokers, &set)?;
        }
        Some(command) => return ask(command),
    }
    Ok(ExitCode::SUCCESS)
}

/// The commands that ask or order something and are done.
fn ask(command: Command) -> Result<ExitCode, Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match command {
        Command::Serve(_) | Command::Controller { .. } => {}
        Command::Topics { command } => topics(command, &mut out)?,
        Command::Status { cluster, json } => status(&cluster, json, &mut out)?,
        Command::Elect { cluster, topic, partition, to, unclean, accept_loss } => {
            let name = TopicPartition::new(&topic, partition)?;
            let to = NodeId::new(to).ok_or(Failure::NoSuchBroker(to))?;
            let mut broker = ask::any(&cluster.bootstrap)?;
            let election = if unclean { Election::Unclean(to) } else { Election::To(to) };
            if unclean {
                let status = ask::gather(&mut broker)?;
                write!(out, "{}", ask::what_may_be_lost(&status, name.topic(), partition, to.value())?)?;
                out.flush()?;
                if !accept_loss {
                    writeln!(out, "nothing was changed; --accept-loss does it")?;
                    out.flush()?;
                    return Ok(ExitCode::SUCCESS);
                }
            }
            let leader = ask::elect(&mut broker, name.clone(), election)?;
            writeln!(out, "{name}: broker {leader} leads")?;
        }
        Command::Reassign { cluster, topic, partition, to, cancel: _ } => {
            let name = topic.zip(partition).map(|(topic, number)| TopicPartition::new(&topic, number));
            reassign(&mut ask::any(&cluster.bootstrap)?, name.transpose()?, to, &mut out)?;
        }
        Command::Broker { command } => {
            let (order, at) = match command {
                BrokerCommand::Stop(at) => (Order::Stop, at),
                BrokerCommand::Kill(at) => (Order::Kill, at),
                BrokerCommand::Start(at) => (Order::Start, at),
            };
            writeln!(out, "{}", supervisor::give(&at.data, BrokerOrder { order, broker: at.id })?)?;
        }
        Command::Dump { path, json } => {
            dump(&path, format_of(json), &mut out)?;
        }
        Command::Cat(arguments) => cat(&what_of(arguments), &mut out, &mut io::stderr())?,
        Command::Import(arguments) => carry(Direction::Import, arguments, &mut out)?,
        Command::Export(arguments) => carry(Direction::Export, arguments, &mut out)?,
        Command::Verify { path, compacted, json } => {
            let mut errors = io::stderr();
            let aside: Option<&mut dyn Write> = if errors.is_terminal() { Some(&mut errors) } else { None };
            let what = Verify { path, compacted, json };
            if verify(&what, Clock::start(), &mut out, aside)? == Verdict::Found {
                return Ok(ExitCode::from(1));
            }
        }
        Command::Recover { dry_run, alone, json, directory } => {
            let what = match (dry_run, alone) {
                (true, _) => Recover::Show,
                (false, false) => Recover::Apply,
                (false, true) => Recover::ApplyAlone,
            };
            recover(&directory, what, format_of(json), Clock::start().now(), &mut out)?;
        }
        Command::Repair { give_up, json, directory } => {
            let now = Clock::start().now();
            if repair(&directory, &give_up, format_of(json), now, &mut out)? == Repaired::Damaged {
                out.flush()?;
                return Ok(ExitCode::from(1));
            }
        }
        Command::Config { set } => {
            write!(out, "{}", settings::table_for_people(&Settings::from_pairs(set)?))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

const fn format_of(json: bool) -> Format {
    if json { Format::Json } else { Format::People }
}

fn what_of(arguments: CatArguments) -> Cat {
    let CatArguments { path, from, since, count, key, contains, compacted, follow, json } = arguments;
    let (from, since) = (from.and_then(Offset::new), since.map(Timestamp::from_millis));
    Cat { path, from, since, count, key, contains, compacted, follow, json }
}

/// Shows what would be done, as Kafka's tools do, and does it only if told to.
fn carry(direction: Direction, arguments: CarryArguments, out: &mut impl Write) -> Result<(), Failure> {
    let CarryArguments { from, into, execute, replace, compacted } = arguments;
    let plan_of = |from: &PathBuf| {
        let (from, into) = (from.clone(), into.clone());
        CarryPlan::make(&Carry { direction, from, into, replace, compacted })
    };
    // All of them before the first is carried, so that what cannot be carried is known while nothing is changed.
    for from in &from {
        write!(out, "{}", plan_of(from)?)?;
    }
    if !execute {
        writeln!(out, "nothing was changed; --execute does it")?;
        return Ok(());
    }
    out.flush()?;
    for from in &from {
        plan_of(from)?.carry_out()?;
        writeln!(out, "{}: done", from.display())?;
        out.flush()?;
    }
    Ok(())
}

fn rebuild(command: ControllerCommand) -> Result<(), Failure> {
    let ControllerCommand::Rebuild { data, topics, set, execute, brokers } = command;
    let settings = Settings::from_pairs(&set)?;
    let mut of_topics: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for text in &topics {
        let wrong = || Failure::TopicSetting(text.clone());
        let (topic, pair) = text.split_once(':').ok_or_else(wrong)?;
        let checked = pairs(&[pair.to_owned()])?;
        of_topics.entry(topic.to_owned()).or_default().extend(checked);
    }
    let defaults = serve::topic_defaults(&settings);
    let what = Rebuild { controller: data, brokers, topics: of_topics, defaults, execute };
    let seed = serve::random_seed().map_err(Failure::NoChance)?;
    rebuild_controller(&what, Clock::start().now(), seed, &mut io::stdout().lock())?;
    Ok(())
}

/// Begins or cancels the reassignment of a partition; without one, shows all that are under way.
fn reassign(
    broker: &mut Connection,
    partition: Option<TopicPartition>,
    to: Option<Vec<i32>>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    if let Some(name) = partition {
        let text = to.as_deref().map(list);
        ask::reassign(broker, &name, to)?;
        match text {
            Some(ids) => writeln!(
                out,
                "{name}: on its way to {ids}; `highwater reassign` shows what is not there yet"
            )?,
            None => writeln!(out, "{name}: stays where it lay")?,
        }
        return Ok(());
    }
    let moving = ask::list_reassignments(broker)?;
    if moving.is_empty() {
        writeln!(out, "nothing is on its way")?;
    }
    for line in moving {
        let (adding, removing) = (list(&line.adding), list(&line.removing));
        let (name, replicas) = (format!("{}-{}", line.topic, line.partition), list(&line.replicas));
        writeln!(out, "{name}: lies on {replicas}, to be added: {adding}, to go: {removing}")?;
    }
    Ok(())
}

fn topics(command: TopicsCommand, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        TopicsCommand::Create {
            cluster,
            name,
            partitions,
            replication_factor,
            replica_assignment,
            configs,
        } => {
            let configs = pairs(&configs)?;
            let assignment = match replica_assignment {
                Some(text) => ask::parse_assignment(&text).ok_or(Failure::Assignment(text))?,
                None => Vec::new(),
            };
            TopicPartition::check_topic(&name)?;
            let topic = NewTopic { name, partitions, replication_factor, assignment, configs };
            let (partitions, replicas) = ask::create_topic(&mut ask::any(&cluster.bootstrap)?, &topic)?;
            writeln!(out, "{}: {partitions} partitions, {replicas} replicas each", topic.name)?;
        }
        TopicsCommand::Delete { cluster, name } => {
            ask::delete_topic(&mut ask::any(&cluster.bootstrap)?, &name)?;
            writeln!(out, "{name} is deleted")?;
        }
        TopicsCommand::List { cluster } => {
            for topic in ask::list_topics(&mut ask::any(&cluster.bootstrap)?)? {
                let (partitions, replicas) = (topic.partitions, topic.replicas);
                let behind = match partitions - topic.in_sync {
                    0 => String::new(),
                    behind => format!(", {behind} not wholly in sync"),
                };
                writeln!(out, "{}: {partitions} partitions, {replicas} replicas each{behind}", topic.name)?;
            }
        }
    }
    Ok(())
}

/// A topic's own settings, checked here already, so that a wrong one is explained.
fn pairs(texts: &[String]) -> Result<Vec<(String, String)>, SettingError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err(SettingError::NotAPair { text: text.clone() }),
    };
    let pairs: Vec<_> = texts.iter().map(pair).collect::<Result<_, _>>()?;
    Settings::default().with_topic(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))?;
    Ok(pairs)
}

fn status(cluster: &Bootstrap, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let status = ask::gather(&mut ask::any(&cluster.bootstrap)?)?;
    if json {
        serde_json::to_writer(&mut *out, &status).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", status.for_people(Clock::start().now().wall))?;
    }
    Ok(())
}
