//! A pickle machine that only ever builds data.
//!
//! Python's pickle is a program for a stack machine that may call anything. This
//! one knows the opcodes of protocols 0 to 5 that describe data, and the few
//! names of [`Global`]; every other name is refused. Values live in an arena, so
//! that neither cycles nor deep nesting can leak or overflow the stack, and
//! every opcode makes at most one value, so that memory is bounded by the
//! input.

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

    /// Executes one opcode; named in comments as in Python's `pickletools`.
    fn step(&mut self, code: u8) -> Result<()> {
        match code {
            0x80 => drop(self.take(1)?),               // PROTO
            0x95 => drop(self.take(8)?),               // FRAME
            b'(' => self.marks.push(self.stack.len()), // MARK
            b'0' => drop(self.pop()?),                 // POP
            b'1' => drop(self.pop_to_mark()?),         // POP_MARK
            b'2' => {
                let top = self.pop()?; // DUP
                self.stack.extend([top, top]);
            }
            b'N' => self.stack.push(Value::None),        // NONE
            0x88 => self.stack.push(Value::Bool(true)),  // NEWTRUE
            0x89 => self.stack.push(Value::Bool(false)), // NEWFALSE
            b'J' => {
                let number = self.number::<4>()? as u32 as i32; // BININT
                self.stack.push(Value::Int(number.into()));
            }
            b'K' => {
                let number = self.number::<1>()?; // BININT1
                self.stack.push(Value::Int(number as i64));
            }
            b'M' => {
                let number = self.number::<2>()?; // BININT2
                self.stack.push(Value::Int(number as i64));
            }
            0x8a | 0x8b => {
                let short = code == 0x8a; // LONG1, LONG4
                let count = if short {
                    self.number::<1>()?
                } else {
                    self.number::<4>()?
                };
                let bytes = self.take(count)?;
                self.stack.push(self.long(bytes));
            }
            b'I' | b'L' => {
                let value = match self.line()? {
                    b"00" => Value::Bool(false), // INT, LONG
                    b"01" => Value::Bool(true),
                    digits => Value::Int(self.ascii(digits)?),
                };
                self.stack.push(value);
            }
            b'F' => {
                let digits = self.line()?; // FLOAT
                self.ascii::<f64>(digits)?;
                self.stack.push(Value::Float);
            }
            b'G' => {
                self.take(8)?; // BINFLOAT
                self.stack.push(Value::Float);
            }
            b'X' | b'T' | b'B' => self.counted::<4>()?, // BINUNICODE, BINSTRING, BINBYTES
            0x8c | b'U' | b'C' => self.counted::<1>()?, // SHORT_ of the same
            0x8d | 0x8e | 0x96 => self.counted::<8>()?, // BINUNICODE8, BINBYTES8, BYTEARRAY8
            b'V' => {
                let line = self.line()?; // UNICODE
                self.stack.push(self.text(line));
            }
            b'S' => {
                let line = self.line()?; // STRING, quoted
                let inner = line.get(1..line.len().saturating_sub(1)).unwrap_or(b"");
                self.stack.push(self.text(inner));
            }
            b')' => self.push_object(Object::Tuple(Vec::new())), // EMPTY_TUPLE
            b']' => self.push_object(Object::List(Vec::new())),  // EMPTY_LIST
            b'}' => self.push_object(Object::Dict(Vec::new())),  // EMPTY_DICT
            0x8f => self.push_object(Object::List(Vec::new())),  // EMPTY_SET
            b't' => {
                let items = self.pop_to_mark()?; // TUPLE
                self.push_object(Object::Tuple(items));
            }
            0x85..=0x87 => self.tuple(usize::from(code - 0x84))?, // TUPLE1 to TUPLE3
            b'l' | 0x91 => {
                let items = self.pop_to_mark()?; // LIST, FROZENSET
                self.push_object(Object::List(items));
            }
            b'd' => {
                let items = self.pop_to_mark()?; // DICT
                self.push_object(Object::Dict(Vec::new()));
                self.extend(items)?;
            }
            b'a' => {
                let item = self.pop()?; // APPEND
                self.extend(vec![item])?;
            }
            b's' => {
                let value = self.pop()?; // SETITEM
                let key = self.pop()?;
                self.extend(vec![key, value])?;
            }
            b'e' | b'u' | 0x90 => {
                let items = self.pop_to_mark()?; // APPENDS, SETITEMS, ADDITEMS
                self.extend(items)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?); // GLOBAL
                let found = self.find_global(module, name)?;
                self.stack.push(found);
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?); // STACK_GLOBAL
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err(self.damaged("a name that is no text"));
                };
                let found = self.find_global(module.as_bytes(), name.as_bytes())?;
                self.stack.push(found);
            }
            b'R' | 0x81 => {
                let arguments = self.pop()?; // REDUCE, NEWOBJ
                let function = self.pop()?;
                self.call(function, arguments)?;
            }
            0x92 => {
                self.pop()?; // NEWOBJ_EX: keywords, arguments, class
                let arguments = self.pop()?;
                let function = self.pop()?;
                self.call(function, arguments)?;
            }
            b'b' => drop(self.pop()?), // BUILD: attributes are of no interest
            b'Q' => {
                let id = self.pop()?; // BINPERSID
                self.persistent(id)?;
            }
            b'q' => {
                let index = self.number::<1>()?; // BINPUT
                self.remember(index)?;
            }
            b'r' => {
                let index = self.number::<4>()?; // LONG_BINPUT
                self.remember(index)?;
            }
            0x94 => self.remember(self.memo.len() as u64)?, // MEMOIZE
            b'h' => {
                let index = self.number::<1>()?; // BINGET
                self.recall(index)?;
            }
            b'j' => {
                let index = self.number::<4>()?; // LONG_BINGET
                self.recall(index)?;
            }
            b'p' | b'g' => {
                let line = self.line()?; // PUT, GET
                let index = self.ascii(line)?;
                if code == b'p' {
                    self.remember(index)?;
                } else {
                    self.recall(index)?;
                }
            }
            _ => {
                return Err(CheckpointError::Opcode {
                    code,
                    at: self.position - 1,
                });
            }
        }
        Ok(())
    }

    /// Text or bytes behind their length of `N` bytes.
    fn counted<const N: usize>(&mut self) -> Result<()> {
        let count = self.number::<N>()?;
        let bytes = self.take(count)?;
        self.stack.push(self.text(bytes));
        Ok(())
    }
}
