//! Which part of the work is this process's, as its scheduler says.

use std::fmt;
use std::path::{Path, PathBuf};

use record::Shard;

use crate::error::Error;

/// Number of shards, or the numbers of the tasks as schedulers write them (`5-29:4`), for
/// engines that do not say which tasks there are, and for running some of them again.
const SHARDS: &str = "HEATSMOOTH_SHARDS";

/// A shard that the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundShard {
    /// The shard.
    pub shard: Shard,
    /// Who says so, for people: `task 7 of the Slurm array`.
    pub said_by: String,
}

impl fmt::Display for FoundShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} ({})", self.shard, self.said_by)
    }
}

/// The shard that this process is to do: [`shard_in`] of its environment.
///
/// # Errors
/// As [`shard_in`].
pub fn shard_of_environment() -> Result<Option<FoundShard>, Error> {
    shard_in(&|name| std::env::var(name).ok())
}

/// The shard that an environment asks for: tasks of Slurm and SGE arrays with any
/// first number and step, Kubernetes Indexed Jobs, PBS arrays, ranks of `torchrun` and
/// of Open MPI. `None`: nobody asks for one, or for the only one.
///
/// Kubernetes and PBS do not say how many tasks there are: `HEATSMOOTH_SHARDS` does, as
/// their number or, for arrays that are not numbered from 1 (Kubernetes: from 0), as
/// `FIRST-LAST` or `FIRST-LAST:STEP`. With it the shards of every array are those,
/// whichever of them run, so that some can be run again.
///
/// # Errors
/// Variables that make no sense, say too little, or contradict each other.
pub fn shard_in(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<FoundShard>, Error> {
    let environment = Environment { get };
    let said = environment.tasks()?;
    let arrays = [
        environment.slurm(said)?,
        environment.sge(said)?,
        environment.pbs(said)?,
        environment.kubernetes(said)?,
    ];
    if said.is_some() && arrays.iter().all(Option::is_none) {
        return Err(Error::refused(
            format!("{SHARDS} is set, but nothing says which of them this process is"),
            "start it as a task of an array, or name the shard",
        ));
    }
    let ranks = [
        environment.ranks("torchrun", "RANK", "WORLD_SIZE")?,
        environment.ranks("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")?,
    ];
    let found = arrays.into_iter().chain(ranks).flatten();
    let mut found = found.filter(|found| found.shard.count > 1);
    let Some(first) = found.next() else {
        return Ok(None);
    };
    match found.find(|other| other.shard != first.shard) {
        None => Ok(Some(first)),
        Some(other) => Err(Error::refused(
            format!("the environment asks for {first} and for {other}"),
            "name the shard",
        )),
    }
}

/// The log of a shard beside `F.tsv`: `F.shard-03-of-64.tsv`.
pub fn shard_log(log: &Path, shard: Shard) -> PathBuf {
    let Shard { index, count } = shard;
    let width = count.to_string().len();
    let mut name = log.file_stem().unwrap_or_default().to_os_string();
    name.push(format!(".shard-{index:0width$}-of-{count}"));
    if let Some(extension) = log.extension() {
        name.push(".");
        name.push(extension);
    }
    log.with_file_name(name)
}

struct Environment<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
}

/// Numbers of the tasks of an array.
#[derive(Clone, Copy)]
enum Tasks {
    /// So many, from the first number that is usual.
    Count(u64),
    /// First and last number, and the step between two.
    Range(u64, u64, u64),
}

/// A task of an array.
struct Array {
    engine: &'static str,
    task: u64,
    /// Those that the engine says there are.
    range: Option<Tasks>,
    /// How many the engine says there are.
    tasks: Option<u64>,
}

impl Environment<'_> {
    /// A whole number; SGE calls what is not set `undefined`.
    fn number(&self, name: &str) -> Result<Option<u64>, Error> {
        let text = (self.get)(name).filter(|text| !text.is_empty() && text != "undefined");
        let Some(text) = text else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Error::refused(
                format!("the environment variable {name} is `{text}`, expected a whole number"),
                "name the shard, or unset the variable",
            )),
        }
    }

    /// The same, of a variable that has to be there.
    fn needed(&self, name: &str, beside: &str) -> Result<u64, Error> {
        self.number(name)?.ok_or_else(|| {
            Error::refused(
                format!("the environment has {beside}, but no {name}"),
                "set it, or name the shard",
            )
        })
    }

    /// The tasks that [`SHARDS`] says there are.
    fn tasks(&self) -> Result<Option<Tasks>, Error> {
        let Some(text) = (self.get)(SHARDS).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let read = || -> Option<Tasks> {
            let Some((first, rest)) = text.trim().split_once('-') else {
                return text.trim().parse().ok().map(Tasks::Count);
            };
            let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
            let [first, last, step] = [first, last, step].map(|part| part.parse::<u64>().ok());
            let (first, last, step) = (first?, last?, step?);
            (first <= last && step > 0).then_some(Tasks::Range(first, last, step))
        };
        read().map(Some).ok_or_else(|| {
            Error::refused(
                format!("the environment variable {SHARDS} is `{text}`"),
                "give a number of tasks, such as 64, or their numbers, such as 5-29:4",
            )
        })
    }

    fn slurm(&self, said: Option<Tasks>) -> Result<Option<FoundShard>, Error> {
        let id = "SLURM_ARRAY_TASK_ID";
        let Some(task) = self.number(id)? else {
            return Ok(None);
        };
        let array = Array {
            engine: "Slurm",
            task,
            range: match said {
                Some(_) => None,
                None => Some(Tasks::Range(
                    self.needed("SLURM_ARRAY_TASK_MIN", id)?,
                    self.needed("SLURM_ARRAY_TASK_MAX", id)?,
                    self.number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1),
                )),
            },
            tasks: self.number("SLURM_ARRAY_TASK_COUNT")?,
        };
        array.shard(said).map(Some)
    }

    fn sge(&self, said: Option<Tasks>) -> Result<Option<FoundShard>, Error> {
        let id = "SGE_TASK_ID";
        let Some(task) = self.number(id)? else {
            return Ok(None);
        };
        let array = Array {
            engine: "SGE",
            task,
            range: match said {
                Some(_) => None,
                None => Some(Tasks::Range(
                    self.needed("SGE_TASK_FIRST", id)?,
                    self.needed("SGE_TASK_LAST", id)?,
                    self.number("SGE_TASK_STEPSIZE")?.unwrap_or(1),
                )),
            },
            tasks: None,
        };
        array.shard(said).map(Some)
    }

    fn pbs(&self, said: Option<Tasks>) -> Result<Option<FoundShard>, Error> {
        for id in ["PBS_ARRAY_INDEX", "PBS_ARRAYID"] {
            if let Some(task) = self.number(id)? {
                let array = Array {
                    engine: "PBS",
                    task,
                    range: None,
                    tasks: None,
                };
                return array.shard(Some(self.said(said, id)?)).map(Some);
            }
        }
        Ok(None)
    }

    fn kubernetes(&self, said: Option<Tasks>) -> Result<Option<FoundShard>, Error> {
        let id = "JOB_COMPLETION_INDEX";
        let Some(index) = self.number(id)? else {
            return Ok(None);
        };
        let said_by = format!("completion {index} of the Kubernetes job");
        let tasks = match self.said(said, id)? {
            Tasks::Count(0) => return checked(index.saturating_add(1), 0, said_by).map(Some),
            Tasks::Count(count) => Tasks::Range(0, count - 1, 1),
            range => range,
        };
        within(tasks, index, None, said_by).map(Some)
    }

    /// The tasks that are said, where the engine does not say them.
    fn said(&self, said: Option<Tasks>, beside: &str) -> Result<Tasks, Error> {
        said.map_or_else(|| self.needed(SHARDS, beside).map(Tasks::Count), Ok)
    }

    fn ranks(
        &self,
        engine: &str,
        rank: &'static str,
        size: &'static str,
    ) -> Result<Option<FoundShard>, Error> {
        match (self.number(rank)?, self.number(size)?) {
            (Some(rank), Some(size)) => checked(
                rank.saturating_add(1),
                size,
                format!("rank {rank} of {engine}"),
            )
            .map(Some),
            _ => Ok(None),
        }
    }
}

impl Array {
    fn shard(&self, said: Option<Tasks>) -> Result<FoundShard, Error> {
        let Self { engine, task, .. } = *self;
        let said_by = format!("task {task} of the {engine} array");
        let alone = Tasks::Range(task, task, 1);
        let range = said.or(self.range).unwrap_or(alone);
        let tasks = self.tasks.filter(|_| said.is_none());
        within(range, task, tasks, said_by)
    }
}

/// The shard of a task among others; there are `tasks` of them, if that is known.
fn within(
    among: Tasks,
    task: u64,
    tasks: Option<u64>,
    said_by: String,
) -> Result<FoundShard, Error> {
    let (first, last, step) = match among {
        Tasks::Count(count) => return checked(task, count, said_by),
        Tasks::Range(first, last, step) => (first, last, step.max(1)),
    };
    let refused = |what: String| {
        Error::refused(
            what,
            format!(
                "set {SHARDS} to the numbers of all tasks, such as 1-64, to run some of them, or \
                 name the shard"
            ),
        )
    };
    if task < first || task > last || !(task - first).is_multiple_of(step) {
        return Err(refused(format!(
            "{said_by} is none of {first} to {last} in steps of {step}"
        )));
    }
    let count = ((last - first) / step).saturating_add(1);
    if let Some(tasks) = tasks.filter(|tasks| *tasks != count) {
        return Err(refused(format!(
            "{said_by}, which has {tasks} tasks: they are not {first} to {last} in steps of {step}"
        )));
    }
    checked(((task - first) / step).saturating_add(1), count, said_by)
}

fn checked(index: u64, count: u64, said_by: String) -> Result<FoundShard, Error> {
    if (1..=count).contains(&index) {
        let shard = Shard { index, count };
        return Ok(FoundShard { shard, said_by });
    }
    Err(Error::refused(
        format!("{said_by} would be shard {index} of {count}"),
        format!("number the tasks from 1 to {count} (Kubernetes: from 0), or name the shard"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<(u64, u64)>, Error> {
        let get = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = shard_in(&get)?;
        Ok(found.map(|found| (found.shard.index, found.shard.count)))
    }

    fn slurm(id: &str, min: &str, max: &str, step: &str, count: &str) -> [(String, String); 5] {
        [
            ("ID", id),
            ("MIN", min),
            ("MAX", max),
            ("STEP", step),
            ("COUNT", count),
        ]
        .map(|(name, value)| (format!("SLURM_ARRAY_TASK_{name}"), value.to_owned()))
    }

    fn of_slurm(
        variables: &[(String, String)],
        more: &[(&str, &str)],
    ) -> Result<Option<(u64, u64)>, Error> {
        let all = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        of(&all.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn every_engine_is_found() {
        assert_eq!(of(&[]).unwrap(), None);
        // Slurm arrays count from anywhere in any step.
        for (task, min, max, step, count, shard) in [
            ("1", "1", "64", "1", "64", (1, 64)),
            ("0", "0", "63", "1", "64", (1, 64)),
            ("63", "0", "63", "1", "64", (64, 64)),
            ("17", "5", "29", "4", "7", (4, 7)),
        ] {
            let found = of_slurm(&slurm(task, min, max, step, count), &[]);
            assert_eq!(found.unwrap(), Some(shard));
        }
        let sge = [
            ("SGE_TASK_ID", "7"),
            ("SGE_TASK_FIRST", "3"),
            ("SGE_TASK_LAST", "9"),
            ("SGE_TASK_STEPSIZE", "2"),
        ];
        assert_eq!(of(&sge).unwrap(), Some((3, 4)));
        assert_eq!(of(&[("SGE_TASK_ID", "undefined")]).unwrap(), None);
        let pbs = [("PBS_ARRAY_INDEX", "2"), ("HEATSMOOTH_SHARDS", "8")];
        assert_eq!(of(&pbs).unwrap(), Some((2, 8)));
        let kubernetes = [("JOB_COMPLETION_INDEX", "0"), ("HEATSMOOTH_SHARDS", "8")];
        assert_eq!(of(&kubernetes).unwrap(), Some((1, 8)));
        assert_eq!(
            of(&[("RANK", "3"), ("WORLD_SIZE", "4")]).unwrap(),
            Some((4, 4))
        );
        let mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(of(&mpi).unwrap(), Some((1, 2)));
        // The only one is all of it.
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap(), None);
    }

    #[test]
    fn some_tasks_of_an_array_can_be_run_again() {
        let again = slurm("9", "5", "9", "1", "2");
        let found = of_slurm(&again, &[("HEATSMOOTH_SHARDS", "64")]);
        assert_eq!(found.unwrap(), Some((9, 64)));
        // In whatever numbers they have.
        let said = [("HEATSMOOTH_SHARDS", "5-29:4")];
        assert_eq!(of_slurm(&again, &said).unwrap(), Some((2, 7)));
        let pbs = [("PBS_ARRAY_INDEX", "17"), ("HEATSMOOTH_SHARDS", "5-29:4")];
        assert_eq!(of(&pbs).unwrap(), Some((4, 7)));
        let kubernetes = [("JOB_COMPLETION_INDEX", "3"), ("HEATSMOOTH_SHARDS", "2-5")];
        assert_eq!(of(&kubernetes).unwrap(), Some((2, 4)));
        // Without it, nobody can know.
        let error = of_slurm(&again, &[]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has 2 tasks: they are not 5 to 9"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("HEATSMOOTH_SHARDS"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (variables, words) in [
            (&[("JOB_COMPLETION_INDEX", "0")][..], "no HEATSMOOTH_SHARDS"),
            (&[("PBS_ARRAYID", "1")], "no HEATSMOOTH_SHARDS"),
            (
                &[("PBS_ARRAYID", "0"), ("HEATSMOOTH_SHARDS", "4")],
                "shard 0 of 4",
            ),
            (
                &[("JOB_COMPLETION_INDEX", "4"), ("HEATSMOOTH_SHARDS", "4")],
                "none of 0 to 3",
            ),
            (
                &[("PBS_ARRAY_INDEX", "6"), ("HEATSMOOTH_SHARDS", "5-29:4")],
                "none of 5 to 29 in steps of 4",
            ),
            (
                &[("PBS_ARRAY_INDEX", "6"), ("HEATSMOOTH_SHARDS", "9-5")],
                "HEATSMOOTH_SHARDS is `9-5`",
            ),
            (&[("RANK", "x"), ("WORLD_SIZE", "4")], "RANK is `x`"),
            (&[("SLURM_ARRAY_TASK_ID", "1")], "no SLURM_ARRAY_TASK_MIN"),
            (&[("HEATSMOOTH_SHARDS", "4")], "nothing says which"),
            (
                &[
                    ("RANK", "0"),
                    ("WORLD_SIZE", "4"),
                    ("OMPI_COMM_WORLD_RANK", "1"),
                    ("OMPI_COMM_WORLD_SIZE", "2"),
                ],
                "shard 1/4 (rank 0 of torchrun) and for shard 2/2 (rank 1 of Open MPI)",
            ),
        ] {
            let error = of(variables).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.hint().is_some());
        }
    }

    #[test]
    fn logs_of_shards_stand_beside_each_other() {
        let shard = Shard {
            index: 3,
            count: 64,
        };
        let log = shard_log(Path::new("runs/heat.tsv"), shard);
        assert_eq!(log, Path::new("runs/heat.shard-03-of-64.tsv"));
        assert_eq!(
            record::manifest_path(&log),
            Path::new("runs/heat.shard-03-of-64.json")
        );
    }
}
