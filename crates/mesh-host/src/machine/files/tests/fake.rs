//! The machine in memory as a ground.

use std::rc::Rc;

use super::{
    super::{Content, Files, Meta, Trouble, split},
    Ground,
};
use crate::machine::{
    engine::NoEngine,
    fake::{Node, World},
    users::UserFound,
};

pub(super) struct Memory(Rc<World>);

impl Memory {
    pub(super) fn new() -> Self {
        let world = World::bare();
        world.tree.borrow_mut().retain(|path, _| path == "/");
        for name in ["bob", "robert"] {
            let user = UserFound { uid: 1234, gid: 1234, ..UserFound::default() };
            world.users.borrow_mut().insert(name.to_owned(), user);
            world.groups.borrow_mut().insert(name.to_owned(), 1234);
        }
        Self(world)
    }

    fn insert(&self, path: &str, node: Node) {
        self.0.tree.borrow_mut().insert(path.to_owned(), node);
    }
}

fn meta(mode: u32, owner: &str) -> Meta {
    let mode = mesh_wire::kinds::Mode::new(mode);
    Meta { mode, owner: owner.to_owned(), group: owner.to_owned() }
}

impl Ground for Memory {
    fn name(&self) -> &'static str {
        "in memory"
    }

    fn files(&self) -> Rc<dyn Files> {
        self.0.machine(Rc::new(NoEngine)).files
    }

    fn put(&self, path: &str, text: &str, mode: u32, owner: &str) {
        self.insert(path, Node::File(Content::new(text.as_bytes()), meta(mode, owner)));
    }

    fn make(&self, path: &str, mode: u32, owner: &str) {
        self.insert(path, Node::Directory(meta(mode, owner)));
    }

    fn link(&self, path: &str, to: &str, owner: &str) {
        self.insert(path, Node::Link { to: to.to_owned(), owner: owner.to_owned() });
    }

    fn name_again(&self, path: &str, other: &str) {
        let node = self.0.tree.borrow()[path].clone();
        self.insert(other, node);
    }

    fn make_odd(&self, path: &str) {
        self.insert(path, Node::Other("a pipe or socket".to_owned()));
    }

    fn take(&self, path: &str) {
        self.0.tree.borrow_mut().remove(path);
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let tree = self.0.tree.borrow();
        tree.keys()
            .filter(|path| split(path).0 == folder && *path != "/")
            .map(|path| split(path).1.to_owned())
            .collect()
    }

    fn cause(&self, trouble: Trouble, path: &str, on: bool) -> bool {
        let mut troubles = self.0.troubles.borrow_mut();
        if on {
            troubles.insert(path.to_owned(), trouble)
        } else {
            troubles.remove(path)
        };
        true
    }
}
