//! A process of the tests of fairness: this test's own program, run again as
//! one of its tests, which says on its output what it did.
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct Worker(Child, BufReader<std::process::ChildStdout>);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Worker {
    /// Answers once it is about to take the lock for the first time.
    pub fn start(root: &Path, page: &Path, what: &str) -> Worker {
        Worker::run("worker_process", root, page, what, "ready")
    }

    pub fn run(test: &str, root: &Path, page: &Path, what: &str, said: &str) -> Worker {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("SYMLEASE_TEST_WORKER", what)
            .env("SYMLEASE_TEST_ROOT", root)
            .env("SYMLEASE_TEST_PAGE", page)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut worker = Worker(child, output);
        worker.line(said);
        worker
    }

    pub fn line(&mut self, begin: &str) -> String {
        let mut lines = self.1.by_ref().lines().map_while(Result::ok);
        lines
            .find(|line| line.starts_with(begin))
            .unwrap_or_else(|| panic!("the worker never said {begin}"))
    }

    /// How often it was served, its longest wait, and how many passed it.
    pub fn end(mut self) -> (u64, Duration, u64) {
        let line = self.line("served");
        let numbers = line.split(' ').skip(1).map(|part| part.parse().unwrap());
        let [served, longest, passed] = numbers.collect::<Vec<u64>>()[..] else {
            panic!("{line}");
        };
        (served, Duration::from_micros(longest), passed)
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }
}
