//! Simulated processes take turns on one thread: each runs on a stack of its
//! own and gives way inside a system call. A turn costs nanoseconds, not a
//! context switch of the real kernel.

use std::cell::{Cell, RefCell};
use std::ptr::null;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

type Way = Yielder<(), ()>;

thread_local! {
    /// The way back to the scheduler of the task that runs; null outside.
    static CURRENT: Cell<*const Way> = const { Cell::new(null()) };
    /// Stacks of tasks that have ended.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Bytes of a task's stack.
const STACK: usize = 512 << 10;

/// One task: a body that runs until it pauses, again and again.
pub struct Task {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    way: *const Way,
}

impl Task {
    /// A task that has not begun.
    pub fn new(body: impl FnOnce() + 'static) -> Task {
        let kept = STACKS.with_borrow_mut(Vec::pop);
        let stack = kept.unwrap_or_else(|| {
            DefaultStack::new(STACK).unwrap_or_else(|error| panic!("no stack: {error}"))
        });
        let coroutine = Coroutine::with_stack(stack, move |way: &Way, ()| {
            CURRENT.set(way);
            body();
        });
        Task {
            coroutine: Some(coroutine),
            way: null(),
        }
    }

    /// Runs until the next pause. False: it has ended.
    pub fn resume(&mut self) -> bool {
        let Some(coroutine) = &mut self.coroutine else {
            return false;
        };
        let outside = CURRENT.replace(self.way);
        let result = coroutine.resume(());
        self.way = CURRENT.replace(outside);
        match result {
            CoroutineResult::Yield(()) => true,
            CoroutineResult::Return(()) => {
                let stack = self.coroutine.take().map(Coroutine::into_stack);
                STACKS.with_borrow_mut(|kept| kept.extend(stack));
                false
            }
        }
    }
}

/// Gives way to the scheduler. False outside of a task, where there is none.
pub fn pause() -> bool {
    let way = CURRENT.get();
    if way.is_null() {
        return false;
    }
    // SAFETY: `CURRENT` is set only while its task runs: `resume` puts the
    // pointer there before and takes it away after. The yielder lives on the
    // task's own stack for as long as its body runs, and this is called from it.
    unsafe { (*way).suspend(()) };
    true
}
