//! A pickle machine that only ever builds data.
//!
//! Python's pickle is a program for a stack machine that may call anything. This
//! one knows the opcodes of protocols 0 to 5 that describe data, and the few
//! names of [`Global`]; every other name is refused. Values live in an arena, so
//! that neither cycles nor deep nesting can leak or overflow the stack, and
//! every opcode makes at most one value, so that memory is bounded by the
//! input.

mod step;

use std::collections::HashMap;

use super::CheckpointError;
use super::object::{Global, Object, Storage, Value, View, global};

/// No honest checkpoint needs more steps.
const MAX_STEPS: usize = 1 << 24;

type Result<T> = std::result::Result<T, CheckpointError>;

/// Runs pickles that stand one behind the other in `bytes`.
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    position: usize,
    objects: Vec<Object<'a>>,
    stack: Vec<Value<'a>>,
    marks: Vec<usize>,
    memo: HashMap<u64, Value<'a>>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            objects: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        }
    }

    /// Takes `count` bytes of the input.
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let end = self.position.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.position..end));
        let taken = taken.ok_or(CheckpointError::Truncated { at: self.position })?;
        self.position += count;
        Ok(taken)
    }

    /// A little-endian number of `N` bytes.
    fn number<const N: usize>(&mut self) -> Result<u64> {
        let mut word = [0; 8];
        word[..N].copy_from_slice(self.take(N as u64)?);
        Ok(u64::from_le_bytes(word))
    }

    fn line(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.position..];
        let end = rest.iter().position(|&b| b == b'\n');
        let end = end.ok_or(CheckpointError::Truncated { at: self.position })?;
        self.position += end + 1;
        Ok(&rest[..end])
    }

    fn damaged(&self, what: &'static str) -> CheckpointError {
        CheckpointError::Pickle {
            at: self.position,
            what,
        }
    }

    fn pop(&mut self) -> Result<Value<'a>> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.damaged("the stack is empty"));
        }
        self.stack.pop().ok_or(self.damaged("the stack is empty"))
    }

    /// Everything above the last mark.
    fn pop_to_mark(&mut self) -> Result<Vec<Value<'a>>> {
        let mark = self.marks.pop().ok_or(self.damaged("there is no mark"))?;
        Ok(self.stack.split_off(mark))
    }

    fn push_object(&mut self, object: Object<'a>) {
        self.stack.push(Value::Object(self.objects.len()));
        self.objects.push(object);
    }

    pub(super) fn object(&self, value: Value<'a>) -> Option<&Object<'a>> {
        match value {
            Value::Object(index) => self.objects.get(index),
            _ => None,
        }
    }

    /// Bytes of one element of every storage that was mentioned, by its key.
    pub(super) fn storage_sizes(&self) -> HashMap<&'a str, usize> {
        let storages = self.objects.iter().filter_map(|object| match object {
            Object::Storage(storage) => Some((storage.key, storage.kind.size())),
            _ => None,
        });
        storages.collect()
    }

    /// Adds pairs to the dictionary or items to the list on top of the stack;
    /// what is added to an opaque object is dropped.
    fn extend(&mut self, items: Vec<Value<'a>>) -> Result<()> {
        let top = self.pop()?;
        self.stack.push(top);
        let object = match top {
            Value::Object(index) => self.objects.get_mut(index),
            _ => None,
        };
        match object {
            Some(Object::Dict(pairs)) if items.len().is_multiple_of(2) => {
                pairs.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                Ok(())
            }
            Some(Object::List(list)) => {
                list.extend(items);
                Ok(())
            }
            Some(Object::Opaque) => Ok(()),
            _ => Err(self.damaged("items for what is no list or dictionary")),
        }
    }

    fn text(&self, bytes: &'a [u8]) -> Value<'a> {
        std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Text)
    }

    fn ascii<T: std::str::FromStr>(&self, bytes: &[u8]) -> Result<T> {
        let text = std::str::from_utf8(bytes).ok();
        let number = text.and_then(|text| text.trim_end_matches('L').parse().ok());
        number.ok_or(self.damaged("a number that is none"))
    }

    fn long(&self, bytes: &'a [u8]) -> Value<'a> {
        if bytes.len() > 8 {
            return Value::Bytes(bytes);
        }
        let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut word = [if negative { 0xff } else { 0 }; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Value::Int(i64::from_le_bytes(word))
    }

    fn find_global(&self, module: &[u8], name: &[u8]) -> Result<Value<'a>> {
        let (module, name) = (
            String::from_utf8_lossy(module),
            String::from_utf8_lossy(name),
        );
        let found = global(&module, &name).ok_or_else(|| CheckpointError::Global {
            name: format!("{module}.{name}").chars().take(200).collect(),
        })?;
        Ok(Value::Global(found))
    }

    /// What calling an allowed name with these arguments stands for.
    fn call(&mut self, function: Value<'a>, arguments: Value<'a>) -> Result<()> {
        let Value::Global(function) = function else {
            return Err(self.damaged("a call of what is no name"));
        };
        let Some(Object::Tuple(arguments)) = self.object(arguments) else {
            return Err(self.damaged("a call without a tuple of arguments"));
        };
        let object = match function {
            Global::Dict => Object::Dict(Vec::new()),
            Global::RebuildTensor => self.view(arguments)?,
            Global::RebuildParameter => {
                let data = arguments.first().copied();
                self.stack.push(data.unwrap_or(Value::None));
                return Ok(());
            }
            Global::Size => {
                let size = arguments.first().copied();
                self.stack.push(size.unwrap_or(Value::None));
                return Ok(());
            }
            Global::Storage(_) | Global::Inert => Object::Opaque,
        };
        self.push_object(object);
        Ok(())
    }

    /// `_rebuild_tensor*(storage, offset, size, stride, requires_grad, hooks,
    /// [element type,] ...)`.
    fn view(&self, arguments: &[Value<'a>]) -> Result<Object<'a>> {
        let sizes = |value: Value<'a>| match self.object(value) {
            Some(Object::Tuple(list) | Object::List(list)) => {
                list.iter().map(|v| v.index()).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        let view = || {
            let [storage, offset, size, stride, ..] = *arguments else {
                return None;
            };
            let Some(Object::Storage(storage)) = self.object(storage) else {
                return None;
            };
            let mut storage = *storage;
            if let Some(Value::Global(Global::Storage(kind))) = arguments.get(6) {
                storage.kind = *kind;
            }
            Some(View {
                storage,
                offset: offset.index()?,
                size: sizes(size)?,
                stride: sizes(stride)?,
            })
        };
        let view = view().ok_or(self.damaged("a tensor that is none"))?;
        Ok(Object::Tensor(view))
    }

    /// `('storage', type, key, location, elements[, view])`.
    fn persistent(&mut self, id: Value<'a>) -> Result<()> {
        let storage = match self.object(id) {
            Some(Object::Tuple(id)) => match id[..] {
                [
                    Value::Text("storage"),
                    Value::Global(Global::Storage(kind)),
                    Value::Text(key),
                    _,
                    Value::Int(_),
                ]
                | [
                    Value::Text("storage"),
                    Value::Global(Global::Storage(kind)),
                    Value::Text(key),
                    _,
                    Value::Int(_),
                    Value::None,
                ] => Some(Storage { kind, key }),
                _ => None,
            },
            _ => None,
        };
        let storage = storage.ok_or(self.damaged("a storage that is none"))?;
        self.push_object(Object::Storage(storage));
        Ok(())
    }

    fn remember(&mut self, index: u64) -> Result<()> {
        let top = self.pop()?;
        self.stack.push(top);
        self.memo.insert(index, top);
        Ok(())
    }

    fn recall(&mut self, index: u64) -> Result<()> {
        let value = self.memo.get(&index).copied();
        self.stack
            .push(value.ok_or(self.damaged("a memo entry is missing"))?);
        Ok(())
    }

    /// The last `count` values as a tuple.
    fn tuple(&mut self, count: usize) -> Result<()> {
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(self.pop()?);
        }
        values.reverse();
        self.push_object(Object::Tuple(values));
        Ok(())
    }

    /// Runs one pickle to its end and returns what it describes; the memo is
    /// forgotten, the objects stay.
    pub(super) fn run(&mut self) -> Result<Value<'a>> {
        self.stack.clear();
        self.marks.clear();
        self.memo.clear();
        for _ in 0..MAX_STEPS {
            let code = self.take(1)?[0];
            if code == b'.' {
                return self.pop();
            }
            self.step(code)?;
        }
        Err(self.damaged("too many steps"))
    }
}
